package etcdbackend_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/etcdbackend"
)

func needsSpace(r *pb.TxnRequest) bool {
	return slices.ContainsFunc(r.Success, func(op *pb.RequestOp) bool { return op.GetRequestPut() != nil })
}

// A member whose quota is used up by a request executes that request, and answers that there is no space.
// So the put may have been executed. Release removes the key, although no guard key can be written. While
// the alarm is raised nothing is put, and a key that exists is somebody else's.
func TestFullAfterThePut(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		why      string
		executed bool
		noWait   bool
		then     func(t *testing.T, s *cluster, d driver.Driver, key string)
		left     int // keys in the end
	}{
		{why: "executed", executed: true},
		{why: "executed, without waiting", executed: true, noWait: true},
		{why: "executed, and taken away by an operator", executed: true, then: func(t *testing.T, s *cluster, d driver.Driver, key string) {
			s.mu.Lock()
			token := locker.Token(s.get(key).CreateRevision)
			s.mu.Unlock()
			if _, err := d.(driver.Breaker).Break(t.Context(), "n", token, locker.Breach{By: "bob"}); err != nil {
				t.Fatalf("Break = %v", err)
			}
		}},
		{why: "not executed"},
		{why: "not executed, and the key exists", left: 1, then: func(_ *testing.T, s *cluster, _ driver.Driver, key string) {
			alive := s.keyNames()[0]
			s.mu.Lock()
			defer s.mu.Unlock()
			other := *s.get(alive)
			s.keys[key] = &other
		}},
	} {
		t.Run(c.why, func(t *testing.T) {
			t.Parallel()
			var s cluster
			var full atomic.Bool
			s.onTxn = func(_ context.Context, r *pb.TxnRequest) (*pb.TxnResponse, error) {
				if !full.Load() || !needsSpace(r) {
					return s.txn(r)
				}
				if c.executed && isPut(r) {
					if resp, err := s.txn(r); err != nil || !resp.Succeeded {
						t.Errorf("the put: %v, %v, want it to be executed", resp, err)
					}
				}
				return nil, rpctypes.ErrGRPCNoSpace
			}
			d := s.start(t)
			alive, _ := acquire(t, d, "alive", 10*time.Second) // it keeps the etcd lease alive
			l, err := d.Lock(locker.Request{Name: "n", TTL: 10 * time.Second, NoWait: c.noWait}, func(error) {})
			if err != nil {
				t.Fatal(err)
			}
			full.Store(true)
			if _, err := l.Acquire(t.Context()); !errors.Is(err, rpctypes.ErrNoSpace) {
				t.Fatalf("Acquire = %v, want that there is no space", err)
			}
			if c.then != nil {
				full.Store(false)
				c.then(t, &s, d, etcdbackend.KeyOf(l))
				full.Store(true)
			}
			release(t, l)
			release(t, alive)
			if keys := s.keyNames(); len(keys) != c.left {
				t.Errorf("when all is released these keys exist: %q, want %d", keys, c.left)
			}
		})
	}
}

// A member that has executed the put, and answers that there is no space, says then that it has no leader.
// So it isn't known whether it is a member of the own cluster, and the next one is asked, which refuses. The
// first member's answer isn't forgotten.
func TestFullAtAMemberThatIsLeft(t *testing.T) {
	t.Parallel()
	var s cluster
	var full atomic.Bool
	disturbed := grpc.UnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
		r, ok := req.(*pb.TxnRequest)
		switch {
		case !ok || !full.Load():
			return handle(ctx, req)
		case isEmpty(r):
			return nil, rpctypes.ErrGRPCNoLeader
		case isPut(r):
			if _, err := handle(ctx, req); err != nil {
				t.Errorf("the put: %v, want it to be executed", err)
			}
			return nil, rpctypes.ErrGRPCNoSpace
		}
		return handle(ctx, req)
	})
	refuses := refusing{with: rpctypes.ErrGRPCPermissionDenied, but: func(req any) bool {
		r, ok := req.(*pb.TxnRequest)
		return !ok || !isPut(r)
	}}
	refuses.now.Store(true)
	d := first(t, clientv3.Config{}, s.member(t, disturbed), s.member(t, refuses.options()...))
	full.Store(true)
	l := prepare(t, d, "n", 10*time.Second)
	if _, err := l.Acquire(t.Context()); !errors.Is(err, rpctypes.ErrPermissionDenied) || s.leaseOf(etcdbackend.KeyOf(l)) == 0 {
		t.Fatalf("Acquire = %v, and the keys are %q; want that the second member refuses", err, s.keyNames())
	}
	full.Store(false)
	release(t, l)
	if s.leaseOf(etcdbackend.KeyOf(l)) != 0 {
		t.Errorf("after Release these keys exist: %q", s.keyNames())
	}
}

// A Grant that uses the quota up is executed, too. The etcd lease is revoked.
func TestFullAfterAGrant(t *testing.T) {
	t.Parallel()
	var s cluster
	d := drive(t, clientv3.Config{Endpoints: []string{s.member(t, grpc.UnaryInterceptor(
		func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
			resp, err := handle(ctx, req)
			if _, grants := req.(*pb.LeaseGrantRequest); grants && err == nil {
				err = rpctypes.ErrGRPCNoSpace
			}
			return resp, err
		}))}})
	l := prepare(t, d, "n", 10*time.Second)
	if _, err := l.Acquire(t.Context()); !errors.Is(err, rpctypes.ErrNoSpace) {
		t.Fatalf("Acquire = %v, want that there is no space", err)
	}
	release(t, l)
	leases := func() (granted, left int) {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.asked), len(s.leases)
	}
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		granted, left := leases()
		if granted > 0 && left == 0 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("of %d etcd leases %d are left", granted, left)
		}
	}
}
