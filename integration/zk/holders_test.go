//go:build unix

package zk

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/fencedlock/locker/conformance"
	"github.com/fencedlock/locker/conformance/proxy"
	"github.com/fencedlock/locker/conformance/step"
	"github.com/fencedlock/locker/integration/internal/itest"
)

// zkUsualRule is a holder as most programs implement it: an ephemeral node of a session whose
// timeout is the TTL. Writes renew the session. The holder believes in it for the TTL, minus the
// engine's margin for clocks, from the time when the last acknowledged write was sent.
type zkUsualRule struct {
	name  string
	conn  *zk.Conn
	path  string
	stop  context.CancelFunc
	ended chan struct{} // when nothing is sent any more
	wrote chan struct{} // has room for one: a write was acknowledged

	mu   sync.Mutex
	base time.Time
	lost time.Time // when the servers have said so
}

func (s *Service) zkUsualRule(t conformance.T, network *proxy.Network, addrs []string) *zkUsualRule {
	t.Helper()
	dial := func(kind, addr string, limit time.Duration) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		defer cancel()
		return network.Dial(ctx, kind, addr)
	}
	h := &zkUsualRule{name: step.LockName(t), ended: make(chan struct{}), wrote: make(chan struct{}, 1)}
	var err error
	h.conn, _, err = zk.Connect(addrs, zkCampaignTTL, zk.WithLogger(zkSilence{}), zk.WithDialer(dial))
	if err != nil {
		t.Fatalf("%v", err)
	}
	itest.Must(t, func(ctx context.Context) error {
		return s.ask(ctx, func() error {
			if err := h.conn.AddAuth("digest", []byte(zkUser+":"+zkPassword)); err != nil {
				return err
			}
			acl := zk.AuthACL(zk.PermAll)
			_, err := h.conn.CreateContainer(zkDir(h.name), nil, zk.FlagContainer, acl)
			if err != nil && !errors.Is(err, zk.ErrNodeExists) {
				return err
			}
			h.base = time.Now()
			h.path, err = h.conn.Create(zkDir(h.name)+"/"+strings.Repeat("0", 32)+"-", nil, zk.FlagEphemeralSequential, acl)
			return err
		})
	})
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	h.stop = stop
	go h.renew(ctx)
	t.Cleanup(func() {
		stop()
		h.conn.Close()
		<-h.ended
	})
	return h
}

func (h *zkUsualRule) renew(ctx context.Context) {
	defer close(h.ended)
	renewal := time.NewTicker(zkCampaignTTL / 3)
	defer renewal.Stop()
	for ctx.Err() == nil {
		sent := time.Now()
		_, err := h.conn.Set(h.path, nil, -1)
		h.mu.Lock()
		switch {
		case err == nil:
			h.base = sent
		case errors.Is(err, zk.ErrNoNode), errors.Is(err, zk.ErrSessionExpired):
			h.lost = time.Now()
			h.mu.Unlock()
			return
		}
		h.mu.Unlock()
		if err == nil {
			select {
			case h.wrote <- struct{}{}:
			default:
			}
		}
		select {
		case <-renewal.C:
		case <-ctx.Done():
		}
	}
}

// hasWritten returns when the next write was acknowledged.
func (h *zkUsualRule) hasWritten(t conformance.T) {
	select {
	case <-h.wrote: // some time ago
	default:
	}
	select {
	case <-h.wrote:
	case <-time.After(zkCampaignTTL):
		t.Logf("%v passed without an acknowledged write", zkCampaignTTL)
	}
}

func (h *zkUsualRule) Over(now time.Time) (bool, time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	deadline := h.base.Add(zkCampaignTTL - zkCampaignTTL/100 - 2*time.Millisecond)
	switch {
	case !h.lost.IsZero() && h.lost.Before(now) && h.lost.Before(deadline):
		return true, h.lost
	case deadline.After(now):
		return false, deadline
	}
	return true, deadline
}

func (h *zkUsualRule) Release(context.Context) error {
	h.stop()
	h.conn.Close() // and its node goes
	<-h.ended
	return nil
}
