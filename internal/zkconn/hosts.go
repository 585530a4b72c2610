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

// hosts tells go-zookeeper which server to try next. go-zookeeper's own provider looks names up
// once, for the life of a session, and fails when one of them is unknown; here names are looked up
// at each dial.
//
// At the end of each round go-zookeeper fails the requests that wait to be sent, and pauses for a
// second. The former is wanted, because they would wait forever. The latter isn't, while the
// session could still be saved. So the first rounds after a connection has ended, until giveUp has
// passed, don't count as rounds.
//
// A connection counts when something was answered on it. A server that confirms the session and
// hangs up, because it refuses the credentials or can't serve, is no better than one that can't be
// reached.
type hosts struct {
	isOver func() bool // nothing is to be connected any more

	mu      sync.Mutex
	servers []string
	next    int
	tried   int       // since the last answer
	since   time.Time // when the first of these was tried
}

var _ zk.HostProvider = (*hosts)(nil)

// giveUp is how long requests wait for a connection on which they can be sent.
const giveUp = 2 * time.Second

func (h *hosts) Init(servers []string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.servers = servers // which go-zookeeper has shuffled
	return nil
}

func (h *hosts) Len() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.servers)
}

func (h *hosts) Next() (server string, round bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.tried == 0 {
		h.since = time.Now()
	}
	server = h.servers[h.next]
	h.next = (h.next + 1) % len(h.servers)
	round = h.tried > 0 && h.tried%len(h.servers) == 0 && time.Since(h.since) > giveUp
	h.tried++
	return server, round || h.isOver() // only at the end of a round go-zookeeper looks whether it was closed
}

func (*hosts) Connected() {} // the credentials must still be given

// answered is called when something was answered, other than credentials.
func (h *hosts) answered() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tried = 0
}

// pause is how long to wait before the next dial. The first round has no pause.
func (h *hosts) pause() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	round := (h.tried - 1) / len(h.servers)
	if round <= 0 || time.Since(h.since) > giveUp { // then go-zookeeper pauses, once a round
		return 0
	}
	longest := min(10*time.Millisecond<<min(round, 4), 100*time.Millisecond)
	return longest/2 + rand.N(longest/2)
}

// WithPorts completes addresses, each HOST or HOST:PORT, by ZooKeeper's port.
func WithPorts(servers []string) ([]string, error) {
	if len(servers) == 0 {
		return nil, fmt.Errorf("%w: invalid servers: want at least one, for example zk1:2181", locker.ErrOption)
	}
	list := make([]string, len(servers))
	for i, server := range servers {
		host, port, err := net.SplitHostPort(server)
		if err != nil {
			host, port = strings.TrimSuffix(strings.TrimPrefix(server, "["), "]"), "2181"
		}
		_, err = strconv.ParseUint(port, 10, 16)
		if host == "" || err != nil || strings.ContainsAny(host, "/@,[] ") || strings.Contains(host, ":") && net.ParseIP(host) == nil {
			return nil, fmt.Errorf("%w: invalid server: want HOST or HOST:PORT, for example zk1:2181", locker.ErrOption)
		}
		list[i] = net.JoinHostPort(host, port)
	}
	return list, nil
}
