package etcdbackend_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/etcdbackend"
)

// first makes a driver that asks the first member until that one doesn't answer, and then the
// others.
func first(t *testing.T, c clientv3.Config, addrs ...string) driver.Driver {
	t.Helper()
	c.Endpoints, c.Logger = addrs[:1], zap.NewNop()
	client, err := clientv3.New(c)
	if err != nil {
		t.Fatal(err)
	}
	d := etcdbackend.NewDriver(client)
	t.Cleanup(func() {
		_ = d.Close(context.Background())
		_ = client.Close()
	})
	if _, err := d.(driver.TokenReader).CurrentToken(t.Context(), "n", 0); err != nil {
		t.Fatalf("CurrentToken = %v", err)
	}
	client.SetEndpoints(addrs...)
	if _, err := d.(driver.TokenReader).CurrentToken(t.Context(), "n", 0); err != nil { // it knows all of them from now on
		t.Fatalf("CurrentToken = %v", err)
	}
	return d
}

// away is a member that can't be reached for a while.
type away struct{ now atomic.Bool }

func (a *away) option() grpc.ServerOption {
	return grpc.UnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
		if a.now.Load() {
			return nil, status.Error(codes.Unavailable, "away")
		}
		return handle(ctx, req)
	})
}

// An address of another cluster is among the endpoints, and the members of its own cluster are
// away.
func TestAnotherCluster(t *testing.T) {
	t.Parallel()
	const ttl = 2 * time.Second
	type way struct {
		why string
		do  func(context.Context, driver.Driver, driver.Lock) error
	}
	together(t, []way{
		{"acquire", func(_ context.Context, d driver.Driver, _ driver.Lock) error {
			_, err := prepare(t, d, "n", ttl).Acquire(t.Context())
			return err
		}},
		{"acquire with another TTL, which needs a Grant", func(_ context.Context, d driver.Driver, _ driver.Lock) error {
			_, err := prepare(t, d, "n", ttl+time.Second).Acquire(t.Context())
			return err
		}},
		{"renew", func(ctx context.Context, d driver.Driver, held driver.Lock) (err error) {
			d.Renew(ctx, []driver.Lock{held}, func(_ int, _ driver.Instant, failed error) { err = failed })
			return err
		}},
		{"release", func(ctx context.Context, _ driver.Driver, held driver.Lock) error { return held.Release(ctx) }},
		{"read the token", func(ctx context.Context, d driver.Driver, _ driver.Lock) error {
			_, err := d.(driver.TokenReader).CurrentToken(ctx, "held", 0)
			return err
		}},
	}, func(c way) string { return c.why }, func(t *testing.T, c way) {
		own, other := cluster{id: 1}, cluster{id: 2}
		var gone away
		d := first(t, clientv3.Config{}, own.member(t, gone.option()), other.member(t))
		held, _ := acquire(t, d, "held", ttl)
		gone.now.Store(true)
		ctx, cancel := context.WithTimeout(t.Context(), ttl)
		defer cancel()
		err := c.do(ctx, d, held)
		if err == nil || !strings.Contains(err.Error(), "a member of another cluster: 127.0.0.1:") {
			t.Errorf("= %v, want an error that names the member of another cluster", err)
		}
		if keys := other.keyNames(); len(keys) > 0 {
			t.Errorf("the other cluster has the keys %q", keys)
		}
		gone.now.Store(false)
		if err := renew(t, d, held)[0]; err != nil && c.why != "release" {
			t.Errorf("Renew when the own cluster is back = %v", err)
		}
	})
}

// What another cluster says of an etcd lease says nothing about the own cluster, where a put may be
// late.
func TestAnotherClusterConfirmsNothing(t *testing.T) {
	t.Parallel()
	own, other := cluster{id: 1}, cluster{id: 2}
	var gone away
	d := first(t, clientv3.Config{}, own.member(t, gone.option()), other.member(t))
	alive, _ := acquire(t, d, "alive", 2*time.Second) // on the same session
	var late atomic.Pointer[pb.TxnRequest]
	own.onTxn = func(ctx context.Context, r *pb.TxnRequest) (*pb.TxnResponse, error) {
		if len(r.Success) > 0 && r.Success[0].GetRequestPut() != nil && late.CompareAndSwap(nil, r) {
			gone.now.Store(true)
			<-ctx.Done()
			return nil, ctx.Err()
		}
		return own.txn(r)
	}
	l := prepare(t, d, "n", 2*time.Second)
	if _, err := l.Acquire(t.Context()); err == nil {
		t.Fatal("Acquire = nil, and no member has answered")
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := l.Release(ctx); err == nil {
		t.Error("Release = nil while the own cluster is away, and a put may still be executed")
	}
	gone.now.Store(false)
	if err := l.Release(t.Context()); err != nil {
		t.Errorf("Release = %v", err)
	}
	if r, err := own.txn(late.Load()); err == nil && r.Succeeded {
		t.Error("the late put is executed after Release")
	}
	if err := renew(t, d, alive)[0]; err != nil {
		t.Errorf("Renew of the other lock = %v", err)
	}
}

// Another cluster answers at the same addresses. With the same id it was founded again, and a
// Locker goes on; with another id it may be any cluster.
func TestExchangedCluster(t *testing.T) {
	for _, c := range []struct {
		why    string
		id     uint64
		goesOn bool
	}{
		{"founded again with the same id", 1, true},
		{"another id", 2, false},
	} {
		t.Run(c.why, func(t *testing.T) {
			t.Parallel()
			s := cluster{id: 1}
			addr := s.member(t)
			d := drive(t, clientv3.Config{Endpoints: []string{addr}})
			l, _ := acquire(t, d, "n", 2*time.Second)
			s.found(2)
			s.mu.Lock()
			s.id = c.id
			s.mu.Unlock()
			if err := renew(t, d, l)[0]; err == nil {
				t.Error("Renew of a lock of which the cluster knows nothing = nil")
			}
			_, err := prepare(t, d, "other", 2*time.Second).Acquire(t.Context())
			if c.goesOn != (err == nil) {
				t.Errorf("Acquire = %v, want an error: %v", err, !c.goesOn)
			}
			if !c.goesOn && err != nil && !strings.Contains(err.Error(), "open the locker again") {
				t.Errorf("Acquire = %v, want it to say what helps", err)
			}
			fresh := drive(t, clientv3.Config{Endpoints: []string{addr}})
			acquire(t, fresh, "fresh", 2*time.Second)
		})
	}
}
