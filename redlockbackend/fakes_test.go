package redlockbackend_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/redlockbackend"
)

// cluster is some fakes and a driver that uses them.
type cluster struct {
	driver.Driver
	servers []*fake
}

// newCluster makes n servers that know their memory and grant nothing yet, each with this time to
// answer.
func newCluster(t *testing.T, n int, serverTimeout time.Duration) *cluster {
	t.Helper()
	c := new(cluster)
	var clients []*redis.Client
	for range n {
		f := newFake(t)
		c.servers = append(c.servers, f)
		clients = append(clients, redis.NewClient(&redis.Options{
			Addr: f.addr, ContextTimeoutEnabled: true, MaxRetries: 5, DialerRetries: 1,
		}))
	}
	c.Driver = redlockbackend.NewDriver(clients, longest, serverTimeout)
	t.Cleanup(func() {
		if err := c.Close(context.Background()); err != nil {
			t.Errorf("Close = %v", err)
		}
		for _, client := range clients {
			_ = client.Close()
		}
	})
	return c
}

// answer sets what the servers answer to a script, in order.
func (c *cluster) answer(script string, replies ...string) {
	for i, r := range replies {
		c.servers[i].answers(script, r)
	}
}

// called is how often each server was asked to execute a script.
func (c *cluster) called(script string) (counts []int) {
	for _, s := range c.servers {
		counts = append(counts, s.called(script))
	}
	return counts
}

func (c *cluster) lock(t *testing.T, noWait bool) driver.Lock {
	t.Helper()
	l, err := c.Lock(locker.Request{Name: "a", TTL: ttl, NoWait: noWait}, func(cause error) { t.Errorf("lost: %v", cause) })
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// released calls Release, and again when the servers have answered that were slower than the
// majority.
func (c *cluster) released(t *testing.T, l driver.Lock) error {
	t.Helper()
	err := l.Release(t.Context())
	if errors.As(err, new(*driver.PartialReleaseError)) {
		redlockbackend.AwaitIdle(t.Context(), c.Driver)
		err = l.Release(t.Context())
	}
	return err
}

// renew makes one renewal of a lock.
func (c *cluster) renew(t *testing.T, l driver.Lock) (base driver.Instant, err error) {
	t.Helper()
	reports := 0
	c.Renew(t.Context(), []driver.Lock{l}, func(_ int, b driver.Instant, e error) {
		base, err = b, e
		reports++
	})
	if reports != 1 {
		t.Fatalf("%d reports, want 1", reports)
	}
	return base, err
}
