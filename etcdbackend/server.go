package etcdbackend

import (
	"context"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fencedlock/locker/driver"
)

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
		if err == nil {
			err = s.ours(m, resp.Header)
		}
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

// beat sends one keepalive of an etcd lease. alive is false when the cluster doesn't have the
// lease.
//
// A keepalive is answered with the whole TTL, which is the one that was granted or more: how far a
// short one is raised is for the leader to say. An answer with less is none to a keepalive, and
// proves nothing.
func (s *server) beat(ctx context.Context, limit time.Duration, g *generation) (b beat, alive bool, err error) {
	_, err = s.try(ctx, limit, func(ctx context.Context, m *member) error {
		sent, resp, err := m.keepAlive(ctx, g.id)
		if err == nil {
			err = s.ours(m, resp.Header)
		}
		if err != nil {
			return err
		}
		if compareTerms(g.term, resp.Header.RaftTerm) == lagging {
			return errLagging
		}
		b, alive = beat{sent: sent, term: resp.Header.RaftTerm, heard: s.now()}, resp.TTL >= int64(g.ttl/time.Second)
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
			// A write can't be committed in an older term than one that was seen: this cluster was
			// founded again, or restored, without the data that it had.
			s.term.CompareAndSwap(known, g.term)
		}
	}
}

func (s *server) grantOnce(ctx context.Context, limit time.Duration, seconds int64, stray func(clientv3.LeaseID)) (*generation, error) {
	var g *generation
	var tried []clientv3.LeaseID // those that may be granted: one for each attempt, so that a late copy is not taken for the one that is used
	_, err := s.try(ctx, limit, func(ctx context.Context, m *member) error {
		id, sent := newLeaseID(), driver.Stamp()
		resp, err := m.grant(ctx, id, seconds)
		if err == nil || callOf(ctx).maybeDone(rpctypes.Error(err)) {
			tried = append(tried, id)
		}
		if err == nil {
			err = s.ours(m, resp.Header)
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

// revoke ends an etcd lease. It is no error when the cluster doesn't have it.
func (s *server) revoke(ctx context.Context, limit time.Duration, id clientv3.LeaseID) error {
	_, err := s.try(ctx, limit, func(ctx context.Context, m *member) error {
		resp, err := m.revoke(ctx, id)
		if err != nil {
			return err
		}
		return s.ours(m, resp.Header)
	})
	if isLeaseNotFound(err) {
		return nil
	}
	return err
}
