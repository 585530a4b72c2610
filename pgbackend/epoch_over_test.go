package pgbackend_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/pgbackend"
)

func openPiped(t *testing.T) (*fake, *pgbackend.Locker) {
	t.Helper()
	f, config := piped(t)
	return f, openWith(t, config)
}

func openWith(t *testing.T, config *pgxpool.Config) *pgbackend.Locker {
	t.Helper()
	l, err := pgbackend.New(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func keyNamed(name string) string {
	return fmt.Sprint(int64(pgbackend.KeyOf("locker", "locker:", name)))
}

// askedFor is a request for the lock called name, as a function call.
func askedFor(name string) string { return "pg_try_advisory_lock(" + keyNamed(name) + ")" }

// answersLate has requests for the lock called name answered a second later. It returns what they say.
func answersLate(f *fake, name string) (asked string) {
	asked = askedFor(name)
	f.change(func(f *fake) {
		f.late = time.Second
		f.before = func(sql string) string {
			if sql == asked {
				return "late"
			}
			return ""
		}
	})
	return asked
}

// seesNextEpoch has a Locker take a token of the next epoch.
func seesNextEpoch(t *testing.T, l locker.Locker) locker.Token {
	t.Helper()
	lease, err := locker.TryAcquire(t.Context(), l, "b", locker.WithTTL(time.Second)) // on a connection of its own
	if err != nil {
		t.Fatal(err)
	}
	return lease.Token()
}

// A Locker that has seen a token of the next epoch asks nothing on a connection from before. A lock that
// is held there may be free on the server that counts, and the other way round.
func TestLockThatIsHeldWhereTheEpochIsOver(t *testing.T) {
	for how, c := range map[string]struct {
		ask  func(ctx context.Context, l *pgbackend.Locker) error
		want error
	}{
		"TryAcquire": {func(ctx context.Context, l *pgbackend.Locker) error {
			_, err := locker.TryAcquire(ctx, l, "c")
			return err
		}, locker.ErrHeld},
		"TryLockTx": {func(ctx context.Context, l *pgbackend.Locker) error {
			_, err := l.TryLockTx(ctx, &answeringTx{answers: []string{"held"}}, "c")
			return err
		}, locker.ErrHeld},
		"Inspect": {func(ctx context.Context, l *pgbackend.Locker) error {
			_, err := locker.Inspect(ctx, l, "c", locker.Look{})
			return err
		}, nil},
		"List": {func(ctx context.Context, l *pgbackend.Locker) error {
			for _, err := range locker.List(ctx, l, "", 0) {
				return err
			}
			return nil
		}, nil},
		"Break": {func(ctx context.Context, l *pgbackend.Locker) error {
			_, err := locker.Break(ctx, l, "c", 81, locker.Breach{Reason: "hangs"})
			return err
		}, locker.ErrNotHolder},
	} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, l := labelled(t)
				old := acquireAs(t, l, "a")
				f.change(func(f *fake) { f.raised++ })
				seesNextEpoch(t, l)
				f.somebodyHas("c")
				before := len(f.connections())
				if err := c.ask(t.Context(), l); !errors.Is(err, c.want) {
					t.Errorf("%s = %v, want %v", how, err, c.want)
				}
				if n := len(f.connections()); n != before+1 {
					t.Errorf("%d connections, and there were %d, want one more", n, before)
				}
				if err := old.Renew(t.Context()); err != nil {
					t.Errorf("the lease from before: %v, want nil", err)
				}
				closeLocker(t, l)
			})
		})
	}
}

// The connection from before ends with its last lease, and not only when the server ends it.
func TestConnectionThatHasResignedEndsWithItsLastLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l := openPiped(t)
		before := f.connections()
		first, last := acquireAs(t, l, "a"), acquireAs(t, l, "d")
		f.change(func(f *fake) { f.raised++ })
		seesNextEpoch(t, l)
		next := acquireAs(t, l, "c")
		left := func() (n int) {
			for c := range f.connections() {
				if before[c] {
					n++
				}
			}
			return n
		}
		releaseNow(t, first)
		synctest.Wait()
		if left() != 1 || last.Err() != nil {
			t.Errorf("the connection from before has ended under a lease, whose Err is %v", last.Err())
		}
		releaseNow(t, last)
		synctest.Wait()
		if left() != 0 {
			t.Error("the connection from before exists, and has no lease any more")
		}
		if err := next.Renew(t.Context()); err != nil {
			t.Errorf("the lease on the next connection: %v, want nil", err)
		}
		closeLocker(t, l)
	})
}

// Nor does a waiter use a connection that was kept from before, though the next epoch was seen only
// while it asked for the lock.
func TestWaitWhereTheEpochIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l := openPiped(t)
		old := acquireAs(t, l, "a")
		f.somebodyHas("d")
		waited := acquireAs(t, l, "d")
		releaseNow(t, waited) // its connection is kept
		f.somebodyHas("c")
		before := f.connections()
		answersLate(f, "c")
		f.change(func(f *fake) { f.raised++ })
		var lease locker.Lease
		done := make(chan error)
		go func() {
			var err error
			lease, err = l.Acquire(t.Context(), "c")
			done <- err
		}()
		synctest.Wait() // for the server's answer
		seen := seesNextEpoch(t, l)
		if err := <-done; err != nil || lease.Token() <= seen {
			t.Fatalf("Acquire = %v, %v, want a token above %v", lease, err, seen)
		}
		f.change(func(f *fake) {
			if before[f.waited] {
				t.Error("it has waited on a connection from before")
			}
		})
		releaseNow(t, lease, old)
		closeLocker(t, l)
	})
}

// The same for a waiter that has begun to wait before. What it is granted then is a lock of the former
// server, also if the Locker has no token of the next epoch yet.
func TestGrantWhereTheEpochIsOver(t *testing.T) {
	for name, isHeld := range map[string]bool{"by its token": false, "by a connection alone": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, l := openPiped(t)
				defer closeLocker(t, l)
				acquireAs(t, l, "a")
				f.somebodyHas("c")
				f.change(func(f *fake) {
					f.late = time.Second
					f.before = func(sql string) string {
						if fakeWait.MatchString(sql) {
							return "late"
						}
						return ""
					}
				})
				var lease locker.Lease
				done := make(chan error, 1)
				go func() {
					var err error
					lease, err = l.Acquire(t.Context(), "c")
					done <- err
				}()
				synctest.Wait() // it waits
				f.change(func(f *fake) { f.raised++ })
				if isHeld {
					f.somebodyHas("b")
				}
				if _, err := locker.TryAcquire(t.Context(), l, "b", locker.WithTTL(time.Second)); errors.Is(err, locker.ErrHeld) != isHeld {
					t.Errorf("TryAcquire on another connection = %v", err)
				}
				if err := <-done; err != nil || lease.Token()>>48 != 2 {
					t.Errorf("Acquire = %v, %v, want a token of the next epoch", lease, err)
				}
			})
		})
	}
}

// A waiter's new connection may lead to a former primary that still answers. Then the waiter polls,
// where the shared connection leads, and doesn't connect again at each try.
func TestConnectionForAWaiterThatLeadsToAFormerPrimary(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l := openPiped(t)
		f.change(func(f *fake) { f.raised++ })
		seen := seesNextEpoch(t, l)
		releaseNow(t, acquireAs(t, l, "a")) // on a new shared connection
		f.somebodyHas("c")
		f.change(func(f *fake) { f.raised-- })
		made := f.statements("pg_control_system")
		var lease locker.Lease
		done := make(chan error)
		go func() {
			var err error
			lease, err = l.Acquire(t.Context(), "c")
			done <- err
		}()
		time.Sleep(4 * time.Second) // less than the pause after a connection that couldn't be made
		if n := f.statements("pg_control_system") - made; n != 1 {
			t.Errorf("%d connections were made, want 1", n)
		}
		if n := f.matching(fakeWait); n != 0 {
			t.Errorf("%d waits, want none", n)
		}
		f.change(func(f *fake) { clear(f.locks) })
		if err := <-done; err != nil || lease.Token() <= seen {
			t.Errorf("Acquire = %v, %v, want a token above %v", lease, err, seen)
		}
		closeLocker(t, l)
	})
}

// A shared connection may lead to a former primary as well. Then requests fail, and don't connect again
// and again: each connection writes to the table of the epoch there.
func TestSharedConnectionThatLeadsToAFormerPrimary(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l := openPiped(t)
		f.change(func(f *fake) { f.raised++ })
		seen := seesNextEpoch(t, l)
		f.change(func(f *fake) { f.raised-- })
		made := f.statements("pg_control_system")
		for range 20 {
			if _, err := locker.TryAcquire(t.Context(), l, "a"); err == nil || !strings.Contains(err.Error(), "former primary") {
				t.Fatalf("TryAcquire = %v, want an error that speaks of a former primary", err)
			}
		}
		if n := f.statements("pg_control_system") - made; n != 1 {
			t.Errorf("%d connections were made, want 1", n)
		}
		f.change(func(f *fake) { f.raised++ })
		time.Sleep(time.Second)
		if lease := acquireAs(t, l, "a"); lease.Token() <= seen {
			t.Errorf("token %v after %v, want a larger one", lease.Token(), seen)
		}
		closeLocker(t, l)
	})
}

// A connection that is given up doesn't end under a lock that is being acquired there. What it is granted
// then is given back, and asked for on the next connection.
func TestGivenUpDuringAnAcquisition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l := openPiped(t)
		releaseNow(t, acquireAs(t, l, "a")) // the shared connection is there, and has no lease
		asked := answersLate(f, "c")
		done := make(chan error)
		go func() {
			lease, err := locker.TryAcquire(t.Context(), l, "c")
			if err == nil && lease.Token()>>48 != 2 {
				t.Errorf("token %v, want one of the next epoch", lease.Token())
			}
			if err == nil {
				err = lease.Release(t.Context())
			}
			done <- err
		}()
		synctest.Wait() // for the server's answer
		f.change(func(f *fake) { f.raised++ })
		seesNextEpoch(t, l)
		acquireAs(t, l, "d") // on the next shared connection
		if err := <-done; err != nil {
			t.Errorf("TryAcquire and Release = %v, want nil", err)
		}
		if n := f.statements(asked); n != 2 {
			t.Errorf("the lock was asked for %d times, want twice", n)
		}
		if n := f.statements("pg_terminate_backend"); n != 0 {
			t.Error("a session was ended by force: its connection has ended under the acquisition")
		}
		closeLocker(t, l)
	})
}

// What is granted or refused on the shared connection counts for nothing if the Locker has got to know of
// a later epoch meanwhile: it may be the answer of a former primary.
func TestAnswerWhereTheEpochIsOver(t *testing.T) {
	for name, c := range map[string]struct{ isGranted, isHeld bool }{
		"granted, and the epoch is known by a token":               {true, false},
		"granted, and the epoch is known by a connection alone":    {true, true},
		"it is held, and the epoch is known by a token":            {false, false},
		"it is held, and the epoch is known by a connection alone": {false, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, l := openPiped(t)
				defer closeLocker(t, l)
				acquireAs(t, l, "a")
				asked, answered := askedFor("c"), false
				f.change(func(f *fake) {
					f.before = func(sql string) string {
						if f.slow = 0; sql != asked || answered {
							return ""
						}
						answered, f.slow = true, time.Second
						if !c.isGranted {
							return "no"
						}
						return ""
					}
				})
				var lease locker.Lease
				done := make(chan error, 1)
				go func() {
					var err error
					lease, err = locker.TryAcquire(t.Context(), l, "c")
					done <- err
				}()
				synctest.Wait() // for the server's answer
				f.change(func(f *fake) { f.raised++ })
				if c.isHeld {
					f.somebodyHas("b")
				}
				_, err := locker.TryAcquire(t.Context(), l, "b", locker.WithTTL(time.Second))
				if errors.Is(err, locker.ErrHeld) != c.isHeld {
					t.Errorf("TryAcquire on another connection = %v", err)
				}
				if err := <-done; err != nil || lease.Token()>>48 != 2 {
					t.Errorf("TryAcquire = %v, %v, want a token of the next epoch", lease, err)
				}
			})
		})
	}
}

// A connection that was silent, and whose epoch is over, ends with its last lease as well.
func TestSilentConnectionWhoseEpochIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l := openPiped(t)
		defer closeLocker(t, l)
		lease, before := acquireAs(t, l, "x"), f.connections()
		f.change(func(f *fake) { f.slow = 4 * time.Second })
		if _, err := locker.TryAcquire(t.Context(), l, "b"); !errors.Is(err, locker.ErrNoAnswer) {
			t.Fatalf("TryAcquire = %v, want ErrNoAnswer", err)
		}
		f.change(func(f *fake) { f.slow = 0 })
		acquireAs(t, l, "c") // on a second connection
		time.Sleep(5 * time.Second)
		f.change(func(f *fake) { f.raised++ })
		seesNextEpoch(t, l)
		acquireAs(t, l, "d")
		releaseNow(t, lease)
		synctest.Wait()
		for c := range f.connections() {
			if before[c] {
				t.Error("the connection from before exists, and has no lease any more")
			}
		}
	})
}
