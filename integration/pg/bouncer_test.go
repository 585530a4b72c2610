//go:build unix

package pg

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/fencedlock/locker/conformance/step"
	"github.com/fencedlock/locker/integration/internal/itest"
	"github.com/fencedlock/locker/pgbackend"
)

// If a pool is configured to clear nothing (server_reset_query), it gives the session of a killed
// holder to the next client, with its locks. If the next client is a Locker, it first releases
// these locks.
func TestPostgresWithoutResetQuery(t *testing.T) {
	itest.NeedServers(t)
	t.Parallel()
	s := itest.Started(t, "postgres", func(ctx context.Context, image string) (*Service, error) {
		return startPgBouncerWith(ctx, image, "server_reset_query =")
	})
	const ttl = 5 * time.Second
	var mu sync.Mutex
	var streams []net.Conn
	killed := false
	dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
		mu.Lock()
		defer mu.Unlock()
		if killed {
			return nil, errors.New("it was killed")
		}
		stream, err := new(net.Dialer).DialContext(ctx, network, addr)
		if err == nil {
			streams = append(streams, stream)
		}
		return stream, err
	}
	l, name := s.dialled(t, dial, pgbackend.WithDefaultTTL(ttl)), step.LockName(t)
	t.Cleanup(func() { _ = l.Close() })
	step.Acquire(t, l, name)
	mu.Lock()
	killed = true
	for _, stream := range streams {
		_ = stream.Close()
	}
	mu.Unlock()
	before := admin[int64](t, s, "select pid from pg_locks where locktype = 'advisory' and mode = 'ExclusiveLock' and objsubid = 1")
	other := step.CloseAtEnd(t, s.dialled(t, new(net.Dialer).DialContext, pgbackend.WithDefaultTTL(ttl)))
	lease := step.Acquire(t, other, step.LockName(t)) // keeps the session alive
	defer step.Release(t, lease)
	if now := admin[int64](t, s, "select pid from pg_locks where locktype = 'advisory' and mode = 'ExclusiveLock' and objsubid = 1 order by pid <> $1 limit 1", before); now != before {
		t.Fatalf("the other Locker has the session %d and not %d: this test proves nothing", now, before)
	}
	third := step.CloseAtEnd(t, s.dialled(t, new(net.Dialer).DialContext, pgbackend.WithDefaultTTL(ttl)))
	next := step.StartAcquire(t, third, name)
	step.Release(t, next.Granted(t, ttl+third.Guarantees().Expiry.Slack+itest.ShortWait))
}
