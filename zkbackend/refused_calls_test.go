package zkbackend_test

import (
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/zkbackend"
)

// go-zookeeper sends nothing before the credentials are accepted, and keeps what waits to be sent:
// each call has to return all the same.
func TestCallsReturnThoughCredentialsAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		d, err := zkbackend.NewDriver(t.Context(), []string{s.addr}, zkbackend.WithTick(tick), zkbackend.WithDefaultTTL(ttl), zkbackend.WithDigest("joe", "secret"),
			zkbackend.WithDialer(func(ctx context.Context, network, addr string) (net.Conn, error) {
				time.Sleep(time.Millisecond) // so that time goes on
				return s.dial(ctx, network, addr)
			}))
		if err != nil {
			t.Fatal(err)
		}
		lock := func(name string) driver.Lock {
			l, err := d.Lock(locker.Request{Name: name, TTL: ttl}, func(error) {})
			if err != nil {
				t.Fatal(err)
			}
			return l
		}
		held, other := lock("a"), lock("b")
		if _, err := held.Acquire(t.Context()); err != nil {
			t.Fatalf("Acquire = %v, want a grant", err)
		}
		s.scripts(func(r request) verdict {
			if r.op == "auth" {
				return reject
			}
			return serve
		})
		s.sever()
		calls := map[string]func(context.Context) error{
			"Acquire": func(ctx context.Context) error {
				_, err := other.Acquire(ctx)
				return err
			},
			"Renew": func(ctx context.Context) (err error) {
				d.Renew(ctx, []driver.Lock{held}, func(_ int, _ driver.Instant, e error) { err = e })
				return err
			},
			"Release": held.Release,
		}
		for _, what := range []string{"Acquire", "Renew", "Release"} {
			ctx, cancel := context.WithTimeout(t.Context(), ttl)
			var err error
			done := make(chan struct{})
			go func() {
				defer close(done)
				err = calls[what](ctx)
			}()
			select {
			case <-done:
				if !contains(err, "credentials") {
					t.Errorf("%s = %v, want an error that speaks of the credentials", what, err)
				}
			case <-time.After(2 * ttl):
				t.Errorf("%s has not returned", what)
				s.scripts(nil)
				<-done
			}
			cancel()
		}
		s.scripts(nil)
		for _, l := range []driver.Lock{held, other} {
			if err := l.Release(t.Context()); err != nil {
				t.Errorf("Release = %v, want nil", err)
			}
		}
		if n := len(s.children("a")); n != 0 {
			t.Errorf("after Release %d nodes, want none", n)
		}
		if err := d.Close(t.Context()); err != nil {
			t.Errorf("Close = %v, want nil", err)
		}
	})
}
