package pgbackend_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/pgbackend"
)

// A connection that is silent, with leases on it, keeps nobody from what another one can do.

const defaultTTL = 30 * time.Second

// silenced is a Locker with a lease on "x", whose connection is silent. One request has found that out.
func silenced(t *testing.T) (f *fake, l locker.Locker, lease locker.Lease, tx func(context.Context) error) {
	t.Helper()
	f, pg := openPiped(t)
	lease = acquireAs(t, pg, "x")
	f.mutes()
	if _, err := locker.TryAcquire(t.Context(), pg, "b"); !errors.Is(err, locker.ErrNoAnswer) || errors.Is(err, locker.ErrHeld) {
		t.Fatalf("TryAcquire on a silent connection = %v, want ErrNoAnswer", err)
	}
	return f, pg, lease, func(ctx context.Context) error {
		_, err := pg.LockTx(ctx, &answeringTx{answers: []string{"granted"}}, "tx")
		return err
	}
}

// mutes makes the only connection silent.
func (f *fake) mutes() {
	f.change(func(f *fake) {
		for c := range f.conns {
			f.mute = c
		}
	})
}

// Whatever any connection can do is done by another one at once. The lease on the silent one lasts until
// its deadline, and nothing is left of the request that had no answer.
func TestSilentConnectionIsPassedOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l, lease, lockTx := silenced(t)
		defer closeLocker(t, l)
		began := time.Now()
		other, err := locker.TryAcquire(t.Context(), l, "c")
		if err != nil {
			t.Fatalf("TryAcquire = %v, want a lease on another connection", err)
		}
		if _, err := locker.Inspect(t.Context(), l, "c", locker.Look{}); err != nil {
			t.Errorf("Inspect = %v, want nil", err)
		}
		if err := lockTx(t.Context()); err != nil {
			t.Errorf("LockTx = %v, want a token", err)
		}
		if _, err := locker.TryAcquire(t.Context(), l, "x"); !errors.Is(err, locker.ErrHeld) {
			t.Errorf("TryAcquire of the lock that the Locker has on the silent connection = %v, want ErrHeld", err)
		}
		again, err := locker.TryAcquire(t.Context(), l, "b")
		if err != nil {
			t.Errorf("TryAcquire of the lock that the silent connection was asked for = %v, want a lease", err)
		}
		if after := time.Since(began); after != 0 {
			t.Errorf("all of it took %v, want that nothing waits for the silent connection", after)
		}
		time.Sleep(defaultTTL*9/10 - 2*time.Second)
		if err := lease.Err(); err != nil {
			t.Errorf("the lease on the silent connection: %v, want nil until its deadline", err)
		}
		time.Sleep(defaultTTL)
		if err := lease.Err(); !errors.Is(err, locker.ErrLost) {
			t.Errorf("the lease on the silent connection after a TTL: %v, want ErrLost", err)
		}
		for _, held := range []locker.Lease{other, again} {
			if err := held.Err(); err != nil {
				t.Errorf("the lease on %q on the other connection: %v, want nil", held.Name(), err)
			}
		}
		if n := len(f.connections()); n != 1 {
			t.Errorf("%d connections, want that the silent one has ended", n)
		}
		releaseNow(t, acquireAs(t, l, "x"))
	})
}

// A request that has had no answer has got the lock. Nobody else of this Locker gets it before that
// session is over.
func TestLateGrantOnASilentConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l := openPiped(t)
		defer closeLocker(t, l)
		acquireAs(t, l, "x")
		f.change(func(f *fake) {
			asked := askedFor("b")
			f.before = func(sql string) string {
				if sql != asked {
					return ""
				}
				f.before = nil
				for c := range f.conns {
					f.locks[keyNamed("b")] = c
				}
				return "silence"
			}
		})
		if _, err := locker.TryAcquire(t.Context(), l, "b"); !errors.Is(err, locker.ErrNoAnswer) {
			t.Fatalf("TryAcquire whose answer is lost = %v, want ErrNoAnswer", err)
		}
		acquireAs(t, l, "c") // on another connection
		for range 5 {
			if _, err := locker.TryAcquire(t.Context(), l, "b"); !errors.Is(err, locker.ErrHeld) {
				t.Errorf("TryAcquire of the lock that the silent connection has got = %v, want ErrHeld", err)
			}
			time.Sleep(4 * time.Second)
		}
		time.Sleep(defaultTTL)
		releaseNow(t, acquireAs(t, l, "b"))
	})
}

// A server that has slow moments again and again has no more than two connections of a TTL, and is asked
// on the one that it answers.
func TestSlowServerGetsNoMoreConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l := openPiped(t)
		defer closeLocker(t, l)
		leases := []locker.Lease{acquireAs(t, l, "x")}
		for i := range 20 {
			slow := 1 + i%2 // one of the connections is silent, or both
			f.change(func(f *fake) {
				f.late = 8 * time.Second
				f.before = func(sql string) string {
					if !strings.HasPrefix(sql, "pg_try_advisory_lock(") || slow == 0 {
						return ""
					}
					slow--
					return "late"
				}
			})
			for j := range 1 + 2*(i%2) {
				if _, err := locker.TryAcquire(t.Context(), l, fmt.Sprint("slow", i, "-", j)); !errors.Is(err, locker.ErrNoAnswer) {
					t.Fatalf("round %d: TryAcquire %d = %v, want ErrNoAnswer", i, j, err)
				}
			}
			if i%2 == 1 {
				time.Sleep(10 * time.Second)
			}
			began := time.Now()
			lease, err := locker.TryAcquire(t.Context(), l, fmt.Sprint("fast", i))
			if err != nil || time.Since(began) != 0 {
				t.Fatalf("round %d: TryAcquire = %v after %v, want a lease at once", i, err, time.Since(began))
			}
			leases = append(leases, lease)
			if n := len(f.connections()); n > 2 {
				t.Fatalf("round %d: %d connections, want 2 at most", i, n)
			}
			time.Sleep(10 * time.Second)
		}
		for _, lease := range leases {
			if err := lease.Err(); err != nil {
				t.Errorf("the lease on %q: %v, want nil", lease.Name(), err)
			}
		}
		time.Sleep(time.Minute)
		f.change(func(f *fake) {
			if n := len(f.locks); n != len(leases) {
				t.Errorf("%d locks are held, want %d: nothing is left of what had no answer in time", n, len(leases))
			}
		})
	})
}

// A connection that was silent, and is heard while another one can't be made, is used at once by all that
// wait.
func TestSilentConnectionIsHeardBeforeAnotherIsMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, config := piped(t)
		hangs, dial := false, config.ConnConfig.DialFunc
		config.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
			if hangs {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return dial(ctx, network, addr)
		}
		l := openWith(t, config)
		defer closeLocker(t, l)
		acquireAs(t, l, "x")
		hangs = true
		f.change(func(f *fake) { f.slow = 4 * time.Second })
		if _, err := locker.TryAcquire(t.Context(), l, "b"); !errors.Is(err, locker.ErrNoAnswer) {
			t.Fatalf("TryAcquire = %v, want ErrNoAnswer", err)
		}
		f.change(func(f *fake) { f.slow = 0 })
		lost, took := bursts(t, 10, func(i int) error { return tryNumbered(t.Context(), l, i) })
		if lost != 0 || took != 2*time.Second {
			t.Errorf("%d of 10 calls had no answer, and all took %v, want leases when it is heard, after 2 s", lost, took)
		}
	})
}

// What has left nothing on the connection that doesn't answer goes on with another one.
func TestFirstToNoticeTheSilence(t *testing.T) {
	for what, call := range map[string]func(ctx context.Context, l *pgbackend.Locker) error{
		"LockTx": func(ctx context.Context, l *pgbackend.Locker) error {
			_, err := l.LockTx(ctx, &answeringTx{answers: []string{"granted"}}, "tx")
			return err
		},
		"TryAcquire, behind a request of a caller that has gone": func(ctx context.Context, l *pgbackend.Locker) error {
			limited, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
			defer cancel()
			if _, err := locker.TryAcquire(limited, l, "b"); err == nil {
				return errors.New("the connection is not silent")
			}
			_, err := locker.TryAcquire(ctx, l, "b")
			return err
		},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, l := openPiped(t)
				defer closeLocker(t, l)
				acquireAs(t, l, "x")
				f.mutes()
				began := time.Now()
				if err := call(t.Context(), l); err != nil || time.Since(began) > 5*time.Second/2 {
					t.Errorf("%s = %v after %v, want nil after 2 s", what, err, time.Since(began))
				}
			})
		})
	}
}

// Connections to several hosts may take longer than the first request of an acquisition may.
func TestAcquisitionWithManyHosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, config := piped(t)
		for port := range uint16(3) {
			config.ConnConfig.Fallbacks = append(config.ConnConfig.Fallbacks, &pgconn.FallbackConfig{Host: "127.0.0.1", Port: 2 + port})
		}
		hangs, dial := false, config.ConnConfig.DialFunc
		config.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
			if hangs && addr != "127.0.0.1:4" {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return dial(ctx, network, addr)
		}
		l := openWith(t, config)
		defer closeLocker(t, l)
		hangs = true
		f.endAll("57P01")
		synctest.Wait()
		began := time.Now()
		if _, err := locker.TryAcquire(t.Context(), l, "a"); !errors.Is(err, locker.ErrNoAnswer) || time.Since(began) > 12*time.Second {
			t.Errorf("TryAcquire = %v after %v, want ErrNoAnswer within 12 s", err, time.Since(began))
		}
		if _, err := locker.TryAcquire(t.Context(), l, "a"); err != nil || time.Since(began) != 15*time.Second {
			t.Errorf("TryAcquire = %v after %v, want a lease when the fourth host has had its turn", err, time.Since(began))
		}
	})
}
