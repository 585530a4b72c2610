package etcdbackend

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fencedlock/locker/driver"
)

// server is the way to the cluster. The client's own connection spreads requests over all members, so every third would
// hang while one of three is frozen; and it repeats some in silence. So there is a connection to each member, the one
// that answered last gets everything, and it is left as soon as it doesn't answer.
type server struct {
	client *clientv3.Client
	left   func(*member) // called when a member is left

	term   atomic.Uint64 // the latest that an answer had: see proof.go
	moment atomic.Uint64

	mu      sync.Mutex
	members []*member
	good    int // the member to ask first
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
	if s.closed {
		return nil, errClosing
	}
	if !slices.EqualFunc(s.members, addrs, func(m *member, addr string) bool { return m.addr == addr }) {
		if err := s.follow(addrs); err != nil {
			return nil, err
		}
	}
	return s.members[s.good%len(s.members)], nil
}

// follow makes connections to members that are new among the client's endpoints, and ends those to members that have
// gone.
func (s *server) follow(addrs []string) error {
	if len(addrs) == 0 {
		return errors.New("the client has no endpoints")
	}
	members := make([]*member, 0, len(addrs))
	for _, addr := range addrs {
		i := slices.IndexFunc(s.members, func(m *member) bool { return m.addr == addr })
		if i >= 0 {
			members = append(members, s.members[i])
			continue
		}
		members = append(members, newMember(s.client, addr))
	}
	for _, m := range s.members {
		if !slices.Contains(members, m) {
			m.close()
		}
	}
	s.members = members
	return nil
}

func (s *server) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.members)
}

// leave makes the next member the one to ask first, unless that has happened already.
func (s *server) leave(m *member) {
	s.mu.Lock()
	n := len(s.members)
	leaving := n > 1 && s.members[s.good%n] == m
	if leaving {
		s.good = (s.good + 1) % n
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

// A pause comes between two rounds through all members, and each is twice as long as the one before.
const (
	firstPause   = 50 * time.Millisecond
	longestPause = 400 * time.Millisecond
)

// try asks one member after the other until one answers, each for limit at most, and all until ctx is over. It goes round
// again while a member lets hope that it will answer later: no leader has been elected yet, say.
//
// late says that a copy of the request, for which no answer was waited, may still be carried out: also when this one has
// been answered.
func (s *server) try(ctx context.Context, limit time.Duration, request func(context.Context, *member) error) (late bool, err error) {
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		hope := false
		for tried := 0; tried == 0 || tried < s.count(); tried++ { // they are known from the first time on
			m, missing := s.best()
			if missing != nil {
				return late, errors.Join(missing, err)
			}
			c := &call{}
			err = c.attempt(ctx, limit, m, request)
			late = late || c.maybeDone(err)
			if err == nil || refused(err) {
				return late, err
			}
			err = overdue(err)
			hope = hope || c.sent()
			if unknownToken(err) {
				break
			}
			s.leave(m)
			if ctx.Err() != nil {
				return late, err
			}
		}
		if !hope {
			return late, err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return late, err
		}
	}
}

// reply is the answer to a Txn.
type reply struct {
	*clientv3.TxnResponse
	linear
	late bool
}

// txn is linearizable when it writes, or reads in one of its branches.
func (s *server) txn(ctx context.Context, limit time.Duration, cmps []clientv3.Cmp, then, els []clientv3.Op) (reply, error) {
	var r reply
	late, err := s.try(ctx, limit, func(ctx context.Context, m *member) error {
		sent := s.now()
		resp, err := m.kv.Txn(ctx).If(cmps...).Then(then...).Else(els...).Commit()
		if err != nil {
			return err
		}
		r.TxnResponse, r.linear = resp, linear{sent: sent, term: resp.Header.RaftTerm}
		return nil
	})
	r.late = late
	if err == nil {
		s.saw(r.term)
	}
	return r, err
}

// beat sends one keepalive of an etcd lease that was granted in term. alive is false when the cluster doesn't have the
// lease.
func (s *server) beat(ctx context.Context, limit time.Duration, id clientv3.LeaseID, term uint64) (b beat, alive bool, err error) {
	_, err = s.try(ctx, limit, func(ctx context.Context, m *member) error {
		sent, resp, err := m.keepAlive(ctx, id)
		if err != nil {
			return err
		}
		if compareTerms(term, resp.Header.RaftTerm) == lagging {
			return errLagging
		}
		b, alive = beat{sent: sent, term: resp.Header.RaftTerm, heard: s.now()}, resp.TTL > 0
		return nil
	})
	if err == nil {
		s.saw(b.term)
	}
	return b, alive, err
}

// grant has an etcd lease granted, in a term that is known to be its own. Etcd leases that may have been granted in vain
// go to stray.
func (s *server) grant(ctx context.Context, limit time.Duration, seconds int64, stray func(clientv3.LeaseID)) (*generation, error) {
	for {
		known := s.term.Load()
		g, err := s.grantOnce(ctx, limit, seconds, stray)
		if err != nil || grantedIn(known, g.term) {
			return g, err
		}
		stray(g.id) // it may be of the term before; by now the term is known
		if compareTerms(known, g.term) == lagging {
			// A write can't be committed in an older term than one that was seen: this cluster has begun anew, without the
			// data that it had.
			s.term.CompareAndSwap(known, g.term)
		}
	}
}

func (s *server) grantOnce(ctx context.Context, limit time.Duration, seconds int64, stray func(clientv3.LeaseID)) (*generation, error) {
	var g *generation
	var tried []clientv3.LeaseID // those that may be granted: one for each attempt, so that a late copy is not taken for the one that is used
	_, err := s.try(ctx, limit, func(ctx context.Context, m *member) error {
		id, sent := newLeaseID(), driver.Now()
		resp, err := m.grant(ctx, id, seconds)
		if err == nil || callOf(ctx).maybeDone(rpctypes.Error(err)) {
			tried = append(tried, id)
		}
		if err != nil {
			return err
		}
		b := beat{sent: sent, term: resp.Header.RaftTerm, heard: s.now()}
		g = &generation{id: id, term: b.term, ttl: time.Duration(resp.TTL) * time.Second, base: sent, beat: b}
		return nil
	})
	for _, id := range tried {
		if g == nil || id != g.id {
			stray(id)
		}
	}
	if err != nil {
		return nil, err
	}
	s.saw(g.term)
	return g, nil
}

// revoke ends an etcd lease. One that the cluster doesn't have is as good.
func (s *server) revoke(ctx context.Context, limit time.Duration, id clientv3.LeaseID) error {
	_, err := s.try(ctx, limit, func(ctx context.Context, m *member) error { return m.revoke(ctx, id) })
	if errors.Is(err, rpctypes.ErrLeaseNotFound) {
		return nil
	}
	return err
}
