package etcdbackend_test

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/etcdbackend"
)

// The answer to the request that marks a key is lost, and the holder has released the lock by the time
// at which the next member is asked. That is no ErrNotHolder, which says that nothing has changed.
func TestBreakWhoseAnswerIsLost(t *testing.T) {
	var s cluster
	addrs := []string{s.member(t), s.member(t)}
	d := drive(t, clientv3.Config{Endpoints: addrs})
	l, g := acquire(t, d, "n", 10*time.Second)
	lost := false
	s.onTxn = func(ctx context.Context, r *pb.TxnRequest) (*pb.TxnResponse, error) {
		resp, err := s.txn(r)
		if len(r.Success) > 0 && bytes.HasPrefix(r.Success[0].GetRequestPut().GetValue(), []byte("!")) && !lost {
			lost = true
			s.delete(etcdbackend.KeyOf(l))
			<-ctx.Done()
			return nil, ctx.Err()
		}
		return resp, err
	}
	effect, err := d.(driver.Breaker).Break(t.Context(), "n", g.Token, locker.Breach{By: "bob"})
	if effect != (locker.Effect{}) || err != nil || !lost {
		t.Errorf("Break = %+v, %v, want nil: the lock is free", effect, err)
	}
	if _, err := d.(driver.Breaker).Break(t.Context(), "n", g.Token, locker.Breach{By: "bob"}); !errors.Is(err, locker.ErrNotHolder) {
		t.Errorf("Break of a lease that is over = %v, want ErrNotHolder", err)
	}
}

// After what time a marked lease is over is known from its etcd lease. If the cluster doesn't have that, it
// has ended with the key, unless a leader has answered that was replaced.
func TestTimeOfABreak(t *testing.T) {
	const ttl = 10 * time.Second
	for _, c := range []struct {
		what   string
		marked func(s *cluster, key string) // when the key is
		within time.Duration
	}{
		{"the etcd lease exists", func(*cluster, string) {}, 10 * time.Second},
		{"the etcd lease and the key have gone", func(s *cluster, key string) {
			clear(s.leases)
			delete(s.keys, key)
		}, 0},
		{"the lock has passed on by a key of that name", func(s *cluster, key string) {
			clear(s.leases)
			next := *s.keys[key]
			next.CreateRevision++
			s.keys[key] = &next
		}, 0},
		{"the etcd lease isn't known, and the key is there", func(s *cluster, _ string) { clear(s.leases) }, -1},
	} {
		t.Run(c.what, func(t *testing.T) {
			var s cluster
			d := drive(t, clientv3.Config{Endpoints: []string{s.member(t)}})
			l, g := acquire(t, d, "n", ttl)
			key := etcdbackend.KeyOf(l)
			s.onTxn = func(_ context.Context, r *pb.TxnRequest) (*pb.TxnResponse, error) {
				resp, err := s.txn(r)
				if len(r.Success) > 0 && bytes.HasPrefix(r.Success[0].GetRequestPut().GetValue(), []byte("!")) {
					s.mu.Lock()
					defer s.mu.Unlock()
					c.marked(&s, key)
				}
				return resp, err
			}
			effect, err := d.(driver.Breaker).Break(t.Context(), "n", g.Token, locker.Breach{By: "bob"})
			if effect != (locker.Effect{Within: c.within}) || err != nil {
				t.Errorf("Break = %+v, %v, want %d", effect, err, c.within)
			}
		})
	}
}

// Nothing ends a key that somebody has put again without an etcd lease.
func TestTimeOfABreakWithoutAnEtcdLease(t *testing.T) {
	var s cluster
	d := drive(t, clientv3.Config{Endpoints: []string{s.member(t)}})
	l, g := acquire(t, d, "n", 10*time.Second)
	s.mu.Lock()
	bare := *s.keys[etcdbackend.KeyOf(l)]
	bare.Lease = 0
	s.keys[etcdbackend.KeyOf(l)] = &bare
	s.mu.Unlock()
	effect, err := d.(driver.Breaker).Break(t.Context(), "n", g.Token, locker.Breach{By: "bob"})
	if effect != (locker.Effect{Within: -1}) || err != nil {
		t.Errorf("Break = %+v, %v, want that no time is known", effect, err)
	}
}
