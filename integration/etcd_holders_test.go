//go:build unix

package integration

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance"
	"github.com/fencedlock/locker/etcdbackend"
	"github.com/fencedlock/locker/integration/proxy"
)

// holding is a holder of a lock.
type holding interface {
	// over is true when the holder knows at the moment now, which is just over, that its lease is lost, and says since when. When it
	// isn't, it says until when the holder would believe in it.
	over(now time.Time) (over bool, moment time.Time)

	// letGo gives the lock back.
	letGo(ctx context.Context) error
}

// configThrough is a client's configuration for a network of its own.
func (s *etcdService) configThrough(t conformance.T, endpoints []string) (clientv3.Config, *proxy.Network) {
	t.Helper()
	network, err := proxy.New()
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(network.Close)
	return s.configBy(network.Dial, endpoints), network
}

// configBy is a client's configuration whose connections are made by dial.
func (s *etcdService) configBy(dial dialFunc, endpoints []string) clientv3.Config {
	config := s.config
	config.Endpoints = endpoints
	config.DialOptions = []grpc.DialOption{grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
		return dial(ctx, "tcp", addr)
	})}
	return config
}

// newEtcdLocker makes a Locker with a client of its own. It asks the first of the endpoints until
// that doesn't answer, and then the others: it is opened with that one alone, because a Locker
// begins with a member at random.
func newEtcdLocker(t conformance.T, config clientv3.Config, opts ...etcdbackend.Option) locker.Locker {
	t.Helper()
	all := config.Endpoints
	config.Endpoints = all[:1]
	client, err := clientv3.New(config)
	if err != nil {
		t.Fatalf("a client = %v", err)
	}
	l, err := etcdbackend.New(t.Context(), client, opts...)
	if err != nil {
		_ = client.Close()
		t.Fatalf("New = %v", err)
	}
	client.SetEndpoints(all...)
	return withClient{l, client}
}

// ownRule is a holder by a lease.
type ownRule struct {
	locker.Lease

	mu   sync.Mutex
	done time.Time // when Done was seen to be closed
	slow bool      // another had the lock when Done was still open, though the deadline had come
}

func newOwnRule(lease locker.Lease) *ownRule {
	h := &ownRule{Lease: lease}
	go func() {
		<-lease.Done()
		h.mu.Lock()
		defer h.mu.Unlock()
		h.done = time.Now()
	}()
	return h
}

// over goes by Err, which reads the clock, as Done is closed by a timer, and a busy machine may be late with that. And it goes by
// the deadline: it must have come too, for a holder that learns of its loss by a message of the cluster may learn of it after the
// next one.
func (h *ownRule) over(now time.Time) (bool, time.Time) {
	open := true
	select {
	case <-h.Done():
		open = false
	default:
	}
	if h.Err() == nil || h.Deadline().After(now) {
		return false, h.Deadline()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.slow = open
	if h.done.IsZero() || h.done.After(now) {
		return true, h.Deadline()
	}
	return true, h.done
}

func (h *ownRule) wasSlow() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.slow
}

func (h *ownRule) letGo(ctx context.Context) error { return h.Release(ctx) }

// usualRule is a holder as most have it: its key hangs on an etcd lease, which it believes to live for the TTL, less what the engine
// takes off for clocks, from when it sent the last keepalive that was acknowledged.
type usualRule struct {
	name   string
	client *clientv3.Client
	lease  clientv3.LeaseID
	stop   context.CancelFunc
	ended  chan struct{} // when nothing is sent any more

	mu   sync.Mutex
	base time.Time
	lost time.Time // when the cluster has said so
}

func (s *etcdService) usualRule(t conformance.T, config clientv3.Config) *usualRule {
	t.Helper()
	client, err := clientv3.New(config)
	if err != nil {
		t.Fatalf("a client = %v", err)
	}
	h := &usualRule{name: lockName(t), client: client, base: time.Now(), ended: make(chan struct{})}
	must(t, func(ctx context.Context) error {
		granted, err := client.Grant(ctx, int64(etcdShortTTL.Seconds()))
		if err != nil {
			return err
		}
		h.lease = granted.ID
		_, err = client.Put(ctx, etcdDir(h.name)+"usual", "", clientv3.WithLease(h.lease))
		return err
	})
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	h.stop = stop
	go h.keepAlive(ctx)
	t.Cleanup(func() {
		stop()
		<-h.ended
		_ = client.Close()
	})
	return h
}

func (h *usualRule) keepAlive(ctx context.Context) {
	defer close(h.ended)
	renewal := time.NewTicker(etcdShortTTL / 3)
	defer renewal.Stop()
	for ctx.Err() == nil {
		sent := time.Now()
		limited, cancel := context.WithTimeout(ctx, etcdShortTTL)
		_, err := h.client.KeepAliveOnce(limited, h.lease)
		cancel()
		h.mu.Lock()
		switch {
		case err == nil:
			h.base = sent
		case errors.Is(err, rpctypes.ErrLeaseNotFound):
			h.lost = time.Now()
			h.mu.Unlock()
			return
		}
		h.mu.Unlock()
		select {
		case <-renewal.C:
		case <-ctx.Done():
		}
	}
}

func (h *usualRule) over(now time.Time) (bool, time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	deadline := h.base.Add(etcdShortTTL - etcdShortTTL/100 - 2*time.Millisecond)
	switch {
	case !h.lost.IsZero() && h.lost.Before(now) && h.lost.Before(deadline):
		return true, h.lost
	case deadline.After(now):
		return false, deadline
	}
	return true, deadline
}

func (h *usualRule) letGo(ctx context.Context) error {
	h.stop()
	<-h.ended
	_, err := h.client.Revoke(ctx, h.lease)
	if errors.Is(err, rpctypes.ErrLeaseNotFound) {
		err = nil
	}
	return err
}
