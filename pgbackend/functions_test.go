package pgbackend_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver/kit"
	"github.com/fencedlock/locker/pgbackend"
)

// What a pooler may make of a function call: then requests are statements.
func TestWithoutFunctionCalls(t *testing.T) {
	for _, c := range []struct {
		what        string // becomes of the first function call of a connection
		connections int
		takes       time.Duration
	}{
		{"0A000 function calls are not supported", 1, 0},
		{"no", 1, 0}, // another session's answer
		{"hang up", 3, 0},
		{"swallow", 3, 0},
		{"silence", 3, 3 * time.Second},
	} {
		t.Run(c.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, config := piped(t)
				f.change(func(f *fake) {
					f.before = func(sql string) string {
						if sql == "pg_backend_pid()" {
							return c.what
						}
						return ""
					}
				})
				began := time.Now()
				l, err := pgbackend.New(t.Context(), config)
				if err != nil {
					t.Fatalf("New = %v, want a Locker", err)
				}
				if f.pids != c.connections || time.Since(began) != c.takes {
					t.Errorf("New has made %d connections in %v, want %d in %v", f.pids, time.Since(began), c.connections, c.takes)
				}
				for _, ttl := range []time.Duration{time.Minute, time.Second} { // on two connections
					lease, err := locker.TryAcquire(t.Context(), l, "a", locker.WithTTL(ttl))
					if err != nil {
						t.Fatalf("TryAcquire = %v, want a lease", err)
					}
					if err := lease.Release(t.Context()); err != nil {
						t.Errorf("Release = %v, want nil", err)
					}
				}
				if by := f.statements("SELECT 1, CASE WHEN pg_try_advisory_lock("); by != 2 {
					t.Errorf("%d locks were taken by statements, want 2", by)
				}
				if again := f.pids - c.connections; c.connections > 1 && again != 2 {
					t.Errorf("%d connections were made for two TTLs afterwards, want 2: without function calls", again)
				}
				if err := l.Close(); err != nil {
					t.Errorf("Close = %v, want nil", err)
				}
			})
		})
	}
}

// A lock whose token can't be had is given back, and a value that comes with no lock is no token.
func TestTokenOfAnotherCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, config := piped(t)
		l, err := pgbackend.New(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		other, err := locker.TryAcquire(t.Context(), l, "other")
		if err != nil {
			t.Fatal(err)
		}
		f.change(func(f *fake) {
			f.before = func(sql string) string {
				if strings.HasPrefix(sql, "nextval(") {
					return "55P03 canceling statement due to lock timeout"
				}
				return ""
			}
		})
		if _, err := locker.TryAcquire(t.Context(), l, "a"); err == nil || errors.Is(err, locker.ErrHeld) {
			t.Errorf("TryAcquire without a token = %v, want the server's error", err)
		}
		f.somebodyHas("b")
		if _, err := locker.TryAcquire(t.Context(), l, "b"); !errors.Is(err, locker.ErrHeld) {
			t.Errorf("TryAcquire of a lock that somebody has = %v, want ErrHeld, whatever became of the second call", err)
		}
		time.Sleep(time.Second)
		if f.matching(fakeGive) != 1 || len(f.locks) != 2 {
			t.Errorf("%d locks were given back, and %d are left, want 1, and 2", f.matching(fakeGive), len(f.locks))
		}
		if err := other.Err(); err != nil {
			t.Errorf("the other lease: %v, want nil", err)
		}
		f.change(func(f *fake) { f.before = nil })
		if lease, err := locker.TryAcquire(t.Context(), l, "a"); err != nil || lease.Token() <= other.Token() {
			t.Errorf("TryAcquire afterwards = %v, want a lease with a larger token", err)
		}
		_ = l.Close()
	})
}

// A caller that leaves while its request is under way leaves nothing: what the request takes is
// given back after it, never before.
func TestCallerLeavesDuringARequest(t *testing.T) {
	for _, leaves := range []time.Duration{time.Millisecond, 30 * time.Millisecond, 120 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			f, config := piped(t)
			l, err := pgbackend.New(t.Context(), config)
			if err != nil {
				t.Fatal(err)
			}
			f.change(func(f *fake) { f.slow = 100 * time.Millisecond })
			var all sync.WaitGroup
			for i := range 20 {
				all.Go(func() {
					ctx, cancel := context.WithCancel(t.Context())
					time.AfterFunc(leaves, cancel)
					began := time.Now()
					lease, err := locker.TryAcquire(ctx, l, fmt.Sprint(i))
					if err == nil {
						t.Errorf("TryAcquire = %v, want it given up", lease)
					}
					if late := time.Since(began) - leaves; late > 10*time.Millisecond {
						t.Errorf("TryAcquire has returned %v after the end of its context", late)
					}
				})
			}
			all.Wait()
			f.change(func(f *fake) { f.slow = 0 })
			time.Sleep(time.Minute)
			f.mu.Lock()
			for i := range 20 {
				key := fmt.Sprint(int64(pgbackend.KeyOf("locker", "locker:", fmt.Sprint(i))))
				take := slices.IndexFunc(f.seen, func(sql string) bool { return strings.HasPrefix(sql, "pg_try_advisory_lock("+key) })
				give := slices.IndexFunc(f.seen, func(sql string) bool { return strings.HasPrefix(sql, "pg_advisory_unlock("+key) })
				if take >= 0 && give >= 0 && give < take {
					t.Errorf("the lock was given back by message %d, and taken by message %d", give, take)
				}
			}
			if len(f.locks) != 0 {
				t.Errorf("%d locks are left", len(f.locks))
			}
			f.mu.Unlock()
			if err := l.Close(); err != nil {
				t.Errorf("Close = %v, want nil", err)
			}
		})
	}
}

// A request that its caller has withdrawn isn't handed to the session any more, and one that was
// handed over can't be withdrawn.
func TestWithdraw(t *testing.T) {
	if handed, err, isWithdrawn := pgbackend.HandOrWithdraw(true); handed != 0 || !errors.Is(err, kit.ErrNotSent) || !isWithdrawn {
		t.Errorf("withdrawn first: handed over %d times, %v, withdrawn: %v", handed, err, isWithdrawn)
	}
	if handed, err, isWithdrawn := pgbackend.HandOrWithdraw(false); handed != 1 || err != nil || isWithdrawn {
		t.Errorf("handed over first: handed over %d times, %v, withdrawn: %v", handed, err, isWithdrawn)
	}
}

// Few requests go by function calls, many at a time by statements, and so does everything on a
// connection that has many leases.
func TestWhatGoesByStatements(t *testing.T) {
	f := newFake(t)
	f.change(func(f *fake) { f.locksPerTx = 1000 })
	l := open(t, f)
	some := func(from, to int) (leases []locker.Lease) {
		var all sync.WaitGroup
		var mu sync.Mutex
		for i := from; i < to; i++ {
			all.Go(func() {
				lease, err := locker.TryAcquire(t.Context(), l, fmt.Sprint(i), locker.WithTTL(time.Minute))
				if err != nil {
					t.Errorf("TryAcquire = %v, want a lease", err)
				}
				mu.Lock()
				leases = append(leases, lease)
				mu.Unlock()
			})
		}
		all.Wait()
		return leases
	}
	some(0, 1)
	groups := regexp.MustCompile(`^SELECT (0|1|i), `)
	if n := f.matching(groups); n != 0 {
		t.Errorf("%d requests of a lone caller went by statements", n)
	}
	f.change(func(f *fake) { f.slow = time.Millisecond }) // so that they meet
	leases := some(1, 300)
	seen := make(map[locker.Token]bool)
	for _, lease := range leases {
		if seen[lease.Token()] {
			t.Errorf("the token %d was given out twice", lease.Token())
		}
		seen[lease.Token()] = true
	}
	if n := f.statements("SELECT i, "); n == 0 {
		t.Error("300 requests at a time were never joined")
	}
	before := f.matching(groups)
	some(300, 301)
	if n := f.matching(groups) - before; n != 1 {
		t.Errorf("a request on a connection with 300 leases made %d statements, want 1", n)
	}
	var all sync.WaitGroup
	for _, lease := range leases {
		all.Go(func() {
			if err := lease.Release(t.Context()); err != nil {
				t.Errorf("Release = %v, want nil", err)
			}
		})
	}
	all.Wait()
	if n := len(f.locks); n != 2 {
		t.Errorf("%d locks are left, want 2", n)
	}
}

// A slow moment in which two connections are made doesn't switch function calls off for good.
func TestFunctionCallsAreTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, config := piped(t)
		swallows := func(sql string) string {
			if sql == "pg_backend_pid()" {
				return "swallow"
			}
			return ""
		}
		f.change(func(f *fake) { f.before = swallows })
		l := openWith(t, config)
		defer closeLocker(t, l)
		byStatements := func(ttl time.Duration) bool {
			before := f.statements("SELECT 1, CASE WHEN pg_try_advisory_lock(")
			releaseNow(t, acquireAs(t, l, "a", locker.WithTTL(ttl)))
			return f.statements("SELECT 1, CASE WHEN pg_try_advisory_lock(") > before
		}
		made := f.pids
		if !byStatements(10*time.Second) || f.pids != made+1 {
			t.Errorf("%d connections were made after two without an answer, want one without function calls", f.pids-made)
		}
		time.Sleep(11 * time.Minute)
		made = f.pids
		if !byStatements(11*time.Second) || f.pids != made+2 {
			t.Errorf("%d connections were made when one was tried again, want 2: function calls are still swallowed", f.pids-made)
		}
		f.change(func(f *fake) { f.before = nil })
		if !byStatements(12 * time.Second) {
			t.Error("a connection just after that takes function calls, want that it wasn't tried")
		}
		time.Sleep(11 * time.Minute)
		if byStatements(13 * time.Second) {
			t.Error("a connection takes no function calls, though the server answers them by now")
		}
	})
}
