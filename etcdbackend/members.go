package etcdbackend

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fencedlock/locker"
)

// server is the way to the cluster. The client's own connection spreads requests over all members,
// so every third would hang while one of three is frozen; and it repeats some in silence. So there
// is a connection to each member, the one that answered last gets everything, and it is left as
// soon as it doesn't answer.
type server struct {
	client *clientv3.Client
	left   func(*member) // called when a member is left

	cluster atomic.Uint64 // the id of the cluster: see cluster.go
	term    atomic.Uint64 // the latest that an answer had: see proof.go
	moment  atomic.Uint64
	logins  shared // see login

	mu      sync.Mutex
	addrs   []string  // the client's endpoints, as members follow them
	members []*member // each once, in an order of this Locker's own
	good    *member   // the member to ask first
	closed  bool
}

func (s *server) now() moment { return moment(s.moment.Add(1)) }

// saw takes in the term of an answer.
func (s *server) saw(term uint64) {
	for known := s.term.Load(); known < term; known = s.term.Load() {
		if s.term.CompareAndSwap(known, term) {
			return
		}
	}
}

// best is the member to ask first.
func (s *server) best() (*member, error) {
	addrs := s.client.Endpoints()
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return nil, errClosing
	case len(addrs) == 0:
		return nil, fmt.Errorf("%w: the client has no endpoints", locker.ErrOption)
	case !slices.Equal(s.addrs, addrs):
		s.follow(addrs)
	}
	return s.good, nil
}

// follow makes connections to members that are new among the client's endpoints, and ends those to
// members that have gone. The order is random: with the order of the URL, all Lockers of all
// programs would ask the first member, and would all move to the second when that one fails.
func (s *server) follow(addrs []string) {
	var members []*member
	for _, addr := range addrs {
		is := func(m *member) bool { return m.addr == addr }
		switch i := slices.IndexFunc(s.members, is); {
		case slices.ContainsFunc(members, is):
		case i >= 0:
			members = append(members, s.members[i])
		default:
			members = append(members, newMember(s.client, addr))
		}
	}
	for _, m := range s.members {
		if !slices.Contains(members, m) {
			m.close()
		}
	}
	rand.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
	if !slices.Contains(members, s.good) {
		s.good = members[0]
	}
	s.addrs, s.members = addrs, members
}

// all returns the members, once they are known.
func (s *server) all() []*member {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.members
}

func (s *server) count() int { return len(s.all()) }

// isGood reports whether m is the member to ask first.
func (s *server) isGood(m *member) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.good == m
}

// leave makes the next member the one to ask first, unless that has happened already.
func (s *server) leave(m *member) {
	s.mu.Lock()
	leaving := s.good == m && len(s.members) > 1
	if leaving {
		s.good = s.members[(slices.Index(s.members, m)+1)%len(s.members)]
	}
	s.mu.Unlock()
	if leaving && s.left != nil {
		s.left(m)
	}
}

func (s *server) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for _, m := range s.members {
		m.close()
	}
}
