//go:build unix

package etcd

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
	"github.com/fencedlock/locker/conformance/proxy"
	"github.com/fencedlock/locker/conformance/step"
	"github.com/fencedlock/locker/etcdbackend"
	"github.com/fencedlock/locker/integration/internal/itest"
)

// configThrough returns a client's configuration for its own network.
func (s *Service) configThrough(t conformance.T, endpoints []string) (clientv3.Config, *proxy.Network) {
	t.Helper()
	network := proxy.Start(t)
	return s.ConfigBy(network.Dial, endpoints), network
}

// ConfigBy returns a client's configuration whose connections are made by dial.
func (s *Service) ConfigBy(dial itest.DialFunc, endpoints []string) clientv3.Config {
	config := s.Config
	config.Endpoints = endpoints
	config.DialOptions = []grpc.DialOption{grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
		return dial(ctx, "tcp", addr)
	})}
	return config
}

// NewLocker makes a Locker with a client of its own. It asks the first of the endpoints until
// that doesn't answer, and then the others: it is opened with that one alone, because a Locker
// begins with a member at random.
func NewLocker(t conformance.T, config clientv3.Config, opts ...etcdbackend.Option) locker.Locker {
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
	if len(all) < 3 {
		return itest.WithClient{Locker: l, Client: client}
	}
	return knowsAll{itest.WithClient{Locker: l, Client: client}}
}

// knowsAll promises what a Locker does that was opened with the addresses of all members.
type knowsAll struct{ itest.WithClient }

func (l knowsAll) Guarantees() locker.Guarantees {
	g := l.WithClient.Guarantees()
	g.Tolerance, g.Because = locker.ToleranceMinority, ""
	return g
}

// usualRule is a holder as most programs implement it: its key is attached to an etcd lease. The
// holder believes that this lease lives for the TTL, minus the engine's margin for clocks, from the
// time when it sent the last acknowledged keepalive.
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

func (s *Service) usualRule(t conformance.T, config clientv3.Config) *usualRule {
	t.Helper()
	client, err := clientv3.New(config)
	if err != nil {
		t.Fatalf("a client = %v", err)
	}
	h := &usualRule{name: step.LockName(t), client: client, base: time.Now(), ended: make(chan struct{})}
	itest.Must(t, func(ctx context.Context) error {
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

func (h *usualRule) Over(now time.Time) (bool, time.Time) {
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

func (h *usualRule) Release(ctx context.Context) error {
	h.stop()
	<-h.ended
	_, err := h.client.Revoke(ctx, h.lease)
	if errors.Is(err, rpctypes.ErrLeaseNotFound) {
		err = nil
	}
	return err
}
