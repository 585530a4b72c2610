//go:build unix

package integration

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/fencedlock/locker/pgbackend"
)

// A pool that is told to clear nothing (server_reset_query) gives the session of a holder that was killed to the next client, with its
// locks. If that is a Locker it gives them back before anything else.
func TestPostgresWithoutResetQuery(t *testing.T) {
	needServers(t)
	t.Parallel()
	s := started(t, "postgres", func(ctx context.Context, image string) (*pgService, error) {
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
	l, name := s.dialled(t, dial, pgbackend.WithDefaultTTL(ttl)), lockName(t)
	t.Cleanup(func() { _ = l.Close() })
	acquire(t, l, name)
	mu.Lock()
	killed = true
	for _, stream := range streams {
		_ = stream.Close()
	}
	mu.Unlock()
	before := admin[int64](t, s, "select pid from pg_locks where locktype = 'advisory' and mode = 'ExclusiveLock' and objsubid = 1")
	other := keep(t, s.dialled(t, new(net.Dialer).DialContext, pgbackend.WithDefaultTTL(ttl)))
	lease := acquire(t, other, lockName(t)) // keeps the session alive
	defer release(t, lease)
	if now := admin[int64](t, s, "select pid from pg_locks where locktype = 'advisory' and mode = 'ExclusiveLock' and objsubid = 1 order by pid <> $1 limit 1", before); now != before {
		t.Fatalf("the other Locker has the session %d and not %d: this test proves nothing", now, before)
	}
	third := keep(t, s.dialled(t, new(net.Dialer).DialContext, pgbackend.WithDefaultTTL(ttl)))
	next := wait(t, third, name)
	release(t, next.granted(t, ttl+third.Guarantees().Expiry.Slack+soon))
}
