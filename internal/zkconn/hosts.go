package zkconn

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/fencedlock/locker"
)

// hosts tells go-zookeeper which server to try next. Its own provider looks the names up once, for the life of a
// session, and fails when one of them isn't known; here names are looked up at each dial.
//
// go-zookeeper makes something of the end of a round: it fails the requests that were waiting to be sent, and pauses for
// a second. The former is wanted, because they would wait for ever, the latter not while a lease could still be saved. So
// the first rounds after a connection has ended, until giveUp has passed, don't count as rounds.
//
// A connection counts when something was answered on it. Servers that confirm the session and hang up, because they
// refuse its credentials or can't serve, are like those that can't be reached.
type Hosts struct {
	Over func() bool // nothing is to be connected any more

	mu      sync.Mutex
	servers []string
	next    int
	tried   int       // since the last answer
	since   time.Time // when the first of these was
}

var _ zk.HostProvider = (*Hosts)(nil)

// giveUp is how long requests wait for a connection to be sent on.
const giveUp = 2 * time.Second

func (h *Hosts) Init(servers []string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.servers = servers // which go-zookeeper has shuffled
	return nil
}

func (h *Hosts) Len() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.servers)
}

func (h *Hosts) Next() (server string, round bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.tried == 0 {
		h.since = time.Now()
	}
	server = h.servers[h.next]
	h.next = (h.next + 1) % len(h.servers)
	round = h.tried > 0 && h.tried%len(h.servers) == 0 && time.Since(h.since) > giveUp
	h.tried++
	return server, round || h.Over() // at the end of a round go-zookeeper looks whether it was closed, and only there
}

func (*Hosts) Connected() {} // the credentials have still to be given

// answered is called when something other than the credentials was answered.
func (h *Hosts) Answered() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tried = 0
}

// pause is how long to wait before the next dial. The first round has none.
func (h *Hosts) Pause() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	round := (h.tried - 1) / len(h.servers)
	if round <= 0 || time.Since(h.since) > giveUp { // then go-zookeeper pauses, once a round
		return 0
	}
	longest := min(10*time.Millisecond<<min(round, 4), 100*time.Millisecond)
	return longest/2 + rand.N(longest/2)
}

// WithPorts completes addresses.
func WithPorts(servers []string) ([]string, error) {
	if len(servers) == 0 {
		return nil, fmt.Errorf("%w: there is no server to connect with", locker.ErrOption)
	}
	list := make([]string, len(servers))
	for i, server := range servers {
		host, port, err := net.SplitHostPort(server)
		if err != nil {
			host, port = strings.TrimSuffix(strings.TrimPrefix(server, "["), "]"), "2181"
		}
		_, err = strconv.ParseUint(port, 10, 16)
		if host == "" || err != nil || strings.ContainsAny(host, "/@,[] ") || strings.Contains(host, ":") && net.ParseIP(host) == nil {
			return nil, fmt.Errorf("%w: a server is HOST or HOST:PORT", locker.ErrOption)
		}
		list[i] = net.JoinHostPort(host, port)
	}
	return list, nil
}
