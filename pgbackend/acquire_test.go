package pgbackend_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/pgbackend"
)

// somebodyHas makes a lock that is held, until the next statement that waits for it.
func (f *fake) somebodyHas(name string) {
	f.change(func(f *fake) { f.locks[fmt.Sprint(int64(pgbackend.KeyOf("locker", "locker:", name)))] = new(fakeConn) })
}

// A wait whose connection ends between the grant and its proof goes on with another one.
func TestWaitGoesOnWhenItsGrantIsLost(t *testing.T) {
	const ttl = 400 * time.Millisecond
	f := newFake(t)
	l := open(t, f)
	for i := range 20 {
		name := fmt.Sprint("a", i)
		f.somebodyHas(name)
		waits, proofs := 0, 0
		f.change(func(f *fake) {
			f.before = func(sql string) string {
				switch {
				case fakeWait.MatchString(sql):
					if waits++; waits == 1 {
						time.Sleep(ttl / 10) // so that the grant has to be proved
					}
				case waits == 1 && strings.HasPrefix(sql, "SELECT pg_backend_pid(), nextval("):
					if proofs++; proofs == 1 {
						return "hang up"
					}
				}
				return ""
			}
		})
		lease, err := l.Acquire(t.Context(), name, locker.WithTTL(ttl))
		if err != nil {
			t.Fatalf("Acquire whose connection ended in round %d = %v, want a lease", i, err)
		}
		if proofs == 0 {
			t.Fatal("the grant was not proved: this test proves nothing")
		}
		_ = lease.Release(t.Context())
	}
}

// A waiter that the server ends because of a deadlock of others waits again. What the statement may
// have taken by then is given back: an error doesn't free locks of a session.
func TestWaitGoesOnAfterADeadlock(t *testing.T) {
	for _, is := range []string{"40P01 deadlock detected", "executed, then 40P01 deadlock detected"} {
		synctest.Test(t, func(t *testing.T) {
			const deadlocks = 3
			f, config := piped(t)
			l, err := pgbackend.New(t.Context(), config, pgbackend.WithDefaultTTL(time.Second))
			if err != nil {
				t.Fatal(err)
			}
			f.somebodyHas("a")
			waits := 0
			f.change(func(f *fake) {
				f.before = func(sql string) string {
					if !fakeWait.MatchString(sql) {
						return ""
					}
					if waits++; waits > deadlocks {
						return ""
					}
					return is
				}
			})
			began := time.Now()
			lease, err := l.Acquire(t.Context(), "a")
			if err != nil {
				t.Fatalf("Acquire after %d times %q = %v, want a lease", waits, is, err)
			}
			if waits < 1 {
				t.Error("it has not waited: this test proves nothing")
			}
			if took := time.Since(began); took < time.Duration(waits-1)*time.Millisecond {
				t.Errorf("it has waited %d times in %v, want pauses", waits, took)
			}
			if err := lease.Release(t.Context()); err != nil {
				t.Errorf("Release = %v, want nil", err)
			}
			time.Sleep(time.Second)
			f.isFree(t)
			if err := l.Close(); err != nil {
				t.Errorf("Close = %v, want nil", err)
			}
		})
	}
}

// A server that says nothing when it is asked for room holds up the opening for its time limit, and
// nobody else.
func TestSilentLookAtTheLockTable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, config := piped(t)
		l, err := pgbackend.New(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		f.silentAbout("FROM pg_locks")
		began := time.Now()
		if _, err := pgbackend.New(t.Context(), config); err == nil || errors.Is(err, context.DeadlineExceeded) || time.Since(began) > 11*time.Second {
			t.Errorf("New without an answer = %v after %v, want an error of its own within 10 s", err, time.Since(began))
		}
		if _, err := locker.TryAcquire(t.Context(), l, "a"); err != nil {
			t.Errorf("TryAcquire of a Locker that is open = %v, want a lease", err)
		}
		closesAtOnce(t, l)
	})
}

// An acquisition that was given up doesn't wait for a connection any more.
func TestGivenUpAcquisitionWaitsForNoConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, config := piped(t)
		l, err := pgbackend.New(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		f.silentAbout("")
		giveUp(t, l, locker.WithTTL(time.Second)) // which needs a connection of its own
		closesAtOnce(t, l)
	})
}

// silentAbout makes the server give no answer to statements that contain a text.
func (f *fake) silentAbout(text string) {
	f.change(func(f *fake) {
		f.before = func(sql string) string {
			if strings.Contains(sql, text) {
				return "silence"
			}
			return ""
		}
	})
}

// giveUp lets ten acquisitions run out of time.
func giveUp(t *testing.T, l locker.Locker, opts ...locker.Option) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	var all sync.WaitGroup
	for i := range 10 {
		all.Go(func() {
			if _, err := l.Acquire(ctx, fmt.Sprint(i), opts...); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, locker.ErrHeld) {
				t.Errorf("Acquire without an answer = %v, want DeadlineExceeded alone", err)
			}
		})
	}
	all.Wait()
}

// closesAtOnce fails if anybody is still waiting, for what takes a second at least. (The server has
// a second to say goodbye.)
func closesAtOnce(t *testing.T, l locker.Locker) {
	t.Helper()
	began := time.Now()
	if err := l.Close(); err != nil {
		t.Errorf("Close = %v, want nil", err)
	}
	if took := time.Since(began); took > time.Second {
		t.Errorf("Close took %v: somebody still waited", took)
	}
}

// A host that takes connections and says nothing, as one that is cut off, leaves time for the
// others of a URL.
func TestSilentHostLeavesTimeForOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, config := piped(t)
		answers := config.ConnConfig.DialFunc
		config.ConnConfig.Fallbacks = []*pgconn.FallbackConfig{{Host: "127.0.0.2", Port: 2}, {Host: "127.0.0.3", Port: 3}}
		config.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
			if addr == "127.0.0.3:3" {
				return answers(ctx, network, addr)
			}
			mine, theirs := net.Pipe()
			go func() { _, _ = io.Copy(io.Discard, theirs) }()
			return mine, nil
		}
		l, err := pgbackend.New(t.Context(), config)
		if err != nil {
			t.Fatalf("New = %v, want a Locker of the host that answers", err)
		}
		if _, err := l.Acquire(t.Context(), "a", locker.WithTTL(time.Second)); err != nil { // on another connection
			t.Errorf("Acquire = %v, want a lease", err)
		}
		_ = l.Close()
	})
}

// The answer to a renewal that comes too late for it still counts: the next one reports it. So a
// lease outlives a server whose every answer takes longer than a renewal may.
func TestLateAnswersRenew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ttl = 800 * time.Millisecond // a renewal may take a quarter of it
		f, config := piped(t)
		l, err := pgbackend.New(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		lease, err := locker.TryAcquire(t.Context(), l, "a", locker.WithTTL(ttl))
		if err != nil {
			t.Fatal(err)
		}
		f.change(func(f *fake) { f.slow = ttl * 3 / 10 })
		time.Sleep(20 * ttl)
		if err := lease.Err(); err != nil {
			t.Errorf("with slow answers: %v, want nil", err)
		}
		f.change(func(f *fake) { f.slow = ttl })
		time.Sleep(2 * ttl)
		if err := lease.Err(); !errors.Is(err, locker.ErrLost) {
			t.Errorf("with answers that take a TTL: %v, want ErrLost", err)
		}
		if err := l.Close(); err != nil {
			t.Errorf("Close = %v, want nil", err)
		}
	})
}

// A pooler may give a client the session of a server that is just ending it. Then the next
// connection is tried.
func TestStillbornConnection(t *testing.T) {
	f := newFake(t)
	looks := 0
	f.change(func(f *fake) {
		f.before = func(sql string) string {
			if strings.HasPrefix(sql, "SELECT pg_catalog.pg_backend_pid(), ") {
				if looks++; looks%2 == 1 {
					return "hang up"
				}
			}
			return ""
		}
	})
	l := open(t, f)
	if _, err := locker.TryAcquire(t.Context(), l, "a", locker.WithTTL(time.Second)); err != nil { // on another connection
		t.Errorf("TryAcquire = %v, want a lease", err)
	}
	if looks != 4 {
		t.Errorf("%d connections were made, want 4", looks)
	}
}

// The same goes for the second connection that is made to find out what kind of pooler there is.
func TestStillbornSecondConnection(t *testing.T) {
	var stillborn, left atomic.Int32
	f := newFake(t)
	f.change(func(f *fake) {
		f.keyPID = 7
		f.last = &pgproto3.ErrorResponse{Severity: "FATAL", Code: "08P01", Message: "invalid server parameter"} // of PgBouncer
		f.before = func(sql string) string {
			if !strings.HasPrefix(sql, "BEGIN; SELECT pg_catalog.pg_backend_pid()") || left.Add(-1) < 0 {
				return ""
			}
			stillborn.Add(1)
			return "end"
		}
	})
	left.Store(9)
	open(t, f)
	if n := stillborn.Swap(0); n != 9 {
		t.Errorf("%d connections have ended: this test proves nothing", n)
	}
	left.Store(1000)
	refused(t, f, nil, "08P01")
	if n := stillborn.Load(); n != 10 {
		t.Errorf("it was given up after %d connections, want 10", n)
	}
}
