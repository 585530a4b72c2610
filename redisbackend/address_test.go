package redisbackend_test

import (
	"context"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
)

// The reader of an error which says that there was no answer must know from which server.
func TestTimeoutsNameTheServer(t *testing.T) {
	for what, change := range map[string]func(*redis.Options){
		"a client that minds contexts": nil,
		"a client that doesn't":        func(o *redis.Options) { o.ContextTimeoutEnabled = false },
	} {
		t.Run(what, func(t *testing.T) {
			f := newFake(t)
			f.answers(silence)
			d := f.driver(t, change)
			names := func(call string, err error) {
				t.Helper()
				if err == nil || strings.Count(err.Error(), f.addr) != 1 {
					t.Errorf("%s = %v, want an error that names %s once", call, err, f.addr)
				}
			}
			var all sync.WaitGroup
			for range 20 { // more than go out alone
				all.Go(func() {
					l := newLock(t, d, 200*time.Millisecond)
					_, err := l.Acquire(t.Context())
					names("Acquire", err)
				})
			}
			all.Wait()
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			l := newLock(t, d, time.Minute)
			d.Renew(ctx, []driver.Lock{l}, func(_ int, _ driver.Instant, err error) { names("Renew", err) })
			_, err := d.(driver.TokenReader).CurrentToken(ctx, "a", 0)
			names("Current", err)
		})
	}
}

// silent is the address of something that accepts connections and says nothing.
func silent(t *testing.T) string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	return listener.Addr().String()
}

func TestOpeningNamesTheServer(t *testing.T) {
	for _, query := range []string{"", "?cluster=true"} {
		addr := silent(t)
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		_, err := locker.Open(ctx, "redis://"+addr+query)
		cancel()
		if err == nil || !strings.Contains(err.Error(), addr) {
			t.Errorf("Open of a silent server%s = %v, want an error that names %s", query, err, addr)
		}
	}
}
