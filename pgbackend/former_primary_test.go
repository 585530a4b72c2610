package pgbackend_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/pgbackend"
)

// A former primary still answers, and connections lead there that were made before another server has
// taken over. Server 0 is the former one.

// takesOver has further connections lead to another server, on which the epoch is higher.
func (f *fake) takesOver() { f.raised, f.server = f.raised+1, f.server+1 }

// waits begins to wait for a lock that somebody has, by a statement that blocks. before is called with
// each statement.
func waits(ctx context.Context, f *fake, l locker.Locker, name string, before func(f *fake, sql string)) (lease *locker.Lease, done chan error) {
	f.somebodyHas(name)
	f.change(func(f *fake) {
		f.before = func(sql string) string {
			before(f, sql)
			if fakeWait.MatchString(sql) {
				return "silence"
			}
			return ""
		}
	})
	lease, done = new(locker.Lease), make(chan error, 1)
	go func() {
		var err error
		*lease, err = l.Acquire(ctx, name)
		done <- err
	}()
	synctest.Wait()
	return lease, done
}

// isFreeNow has the fake server answer all requests, and nobody has the lock.
func isFreeNow(f *fake, name string) {
	f.change(func(f *fake) {
		f.before = nil
		delete(f.locks, keyNamed(name))
	})
}

// serversOf counts the connections to each server.
func (f *fake) serversOf() (n [2]int) {
	for c := range f.connections() {
		n[c.server]++
	}
	return n
}

// A waiter on a former primary waits again, where the Locker knows that another server has taken over.
// Nothing is asked of the former one meanwhile, where a cancellation would be for another process.
func TestWaiterOnAFormerPrimary(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l := openPiped(t)
		defer closeLocker(t, l)
		old := acquireAs(t, l, "a")
		lease, done := waits(t.Context(), f, l, "c", func(*fake, string) {})
		f.change((*fake).takesOver)
		seen := seesNextEpoch(t, l)
		isFreeNow(f, "c")
		began := time.Now()
		select {
		case err := <-done:
			if err != nil || (*lease).Token() <= seen {
				t.Fatalf("Acquire = %v, %v, want a token above %v", *lease, err, seen)
			}
		case <-time.After(time.Minute):
			t.Fatal("it still waits on the former primary")
		}
		if took := time.Since(began); took > 11*time.Second {
			t.Errorf("it has waited for %v more, want no longer than until the next renewal", took)
		}
		time.Sleep(time.Second)
		f.change(func(f *fake) {
			if len(f.cancelled) != 0 {
				t.Errorf("the servers %v were asked to cancel the wait, want none", f.cancelled)
			}
		})
		if n := f.serversOf(); n[0] != 1 {
			t.Errorf("%d connections to the former primary, want one, the lease's", n[0])
		}
		if err := old.Renew(t.Context()); err != nil {
			t.Errorf("the lease from before: %v, want nil", err)
		}
	})
}

// A wait on a former primary that is given up is removed at once.
func TestWaiterOnAFormerPrimaryThatGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l := openPiped(t)
		defer closeLocker(t, l)
		acquireAs(t, l, "a")
		ctx, cancel := context.WithCancel(t.Context())
		_, done := waits(ctx, f, l, "c", func(*fake, string) {})
		f.change((*fake).takesOver)
		releaseNow(t, acquireAs(t, l, "b", locker.WithTTL(time.Second)))
		f.change(func(f *fake) { f.before = nil })
		releaseNow(t, acquireAs(t, l, "d")) // on a new shared connection
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Fatalf("Acquire that was given up = %v", err)
		}
		time.Sleep(100 * time.Millisecond)
		if n := f.serversOf(); n[0] != 1 {
			t.Errorf("%d connections to the former primary, want one, the lease's", n[0])
		}
	})
}

// takenOver is a Locker with a lease on the former primary, and a waiter on the server that takes over
// between the request for the lock and the wait.
func takenOver(ctx context.Context, t *testing.T) (f *fake, l *pgbackend.Locker, done chan error) {
	t.Helper()
	f, l = openPiped(t)
	acquireAs(t, l, "a")
	asked := askedFor("c")
	_, done = waits(ctx, f, l, "c", func(f *fake, sql string) {
		if sql == asked && f.server == 0 {
			f.takesOver()
		}
	})
	if n := f.serversOf(); n != [2]int{1, 1} {
		t.Errorf("%v connections, want one to each server", n)
	}
	return f, l, done
}

// The waiter keeps its place there, and is removed there: the former primary knows nothing of it.
func TestWaiterWhoseSharedConnectionLeadsToAFormerPrimary(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		f, l, done := takenOver(ctx, t)
		defer closeLocker(t, l)
		time.Sleep(45 * time.Second) // four renewals
		if n := f.matching(fakeWait); n != 1 {
			t.Errorf("%d waits, want one that keeps its place", n)
		}
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Fatalf("Acquire that was given up = %v", err)
		}
		time.Sleep(100 * time.Millisecond)
		f.change(func(f *fake) {
			if !slices.Equal(f.cancelled, []int{1}) || len(f.ended) != 0 {
				t.Errorf("the servers %v were asked to cancel the wait, and %v to end its session, want 1 and none", f.cancelled, f.ended)
			}
		})
	})
}

// Whether the session of a connection that broke is over is asked where it was.
func TestSessionThatAFormerPrimaryDoesNotKnow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		f, l, done := takenOver(ctx, t)
		defer closeLocker(t, l)
		f.change(func(f *fake) {
			for c := range f.conns {
				if c.server == 1 {
					_ = c.Close()
				}
			}
		})
		synctest.Wait()
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Fatalf("Acquire that was given up = %v", err)
		}
		time.Sleep(5 * time.Second)
		f.change(func(f *fake) {
			if len(f.ended) == 0 || slices.Contains(f.ended, 0) {
				t.Errorf("the servers %v were asked to end the session, want the other one alone", f.ended)
			}
		})
	})
}

// A wait is granted on a former primary while a renewal asks whether it still waits, and then the Locker
// gets to know of the next epoch. The lease goes on.
func TestGrantWhileItsWaitIsRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l := openPiped(t)
		defer closeLocker(t, l)
		acquireAs(t, l, "a")
		f.somebodyHas("c")
		granted := time.Now().Add(11 * time.Second) // the renewal begins some seconds before
		asked := make(chan struct{}, 1)
		f.change(func(f *fake) {
			f.before = func(sql string) string {
				switch {
				case fakeWait.MatchString(sql):
					f.late = time.Until(granted)
				case strings.HasPrefix(sql, "SELECT pid FROM pg_stat_activity") && len(asked) == 0:
					asked <- struct{}{}
					f.late = time.Until(granted.Add(time.Second))
				default:
					return ""
				}
				return "late"
			}
		})
		lease, err := l.Acquire(t.Context(), "c")
		if err != nil || len(asked) == 0 {
			t.Fatalf("Acquire = %v, and a renewal has asked before: %v", err, len(asked) > 0)
		}
		f.change((*fake).takesOver)
		seesNextEpoch(t, l)
		time.Sleep(3 * time.Second)
		if err := lease.Err(); err != nil {
			t.Errorf("the lease: %v, want nil", err)
		}
	})
}

// A waiter whose statement fails where the epoch is over waits again: a restore may have replaced the
// sequence that the statement names.
func TestWaitThatFailsWhereTheEpochIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l := openPiped(t)
		defer closeLocker(t, l)
		acquireAs(t, l, "a")
		f.somebodyHas("c")
		f.change(func(f *fake) {
			f.before = func(sql string) string {
				if f.slow = 0; f.server == 0 && fakeWait.MatchString(sql) {
					f.slow = time.Second
					return "XX000 could not open relation with OID 900"
				}
				return ""
			}
		})
		done := make(chan error, 1)
		go func() {
			_, err := l.Acquire(t.Context(), "c")
			done <- err
		}()
		synctest.Wait() // it waits
		f.change((*fake).takesOver)
		seesNextEpoch(t, l)
		time.Sleep(2 * time.Second)
		isFreeNow(f, "c")
		if err := <-done; err != nil {
			t.Errorf("Acquire = %v, want the lock", err)
		}
	})
}
