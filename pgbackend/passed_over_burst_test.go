package pgbackend_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/pgbackend"
)

// bursts calls many functions at the same time, and returns how many had no answer, and how long all took.
func bursts(t *testing.T, many int, call func(i int) error) (unanswered int, took time.Duration) {
	t.Helper()
	began := time.Now()
	var lost atomic.Int32
	var all sync.WaitGroup
	for i := range many {
		all.Go(func() {
			switch err := call(i); {
			case errors.Is(err, locker.ErrNoAnswer):
				lost.Add(1)
			case err != nil:
				t.Errorf("call %d = %v", i, err)
			}
		})
	}
	all.Wait()
	return int(lost.Load()), time.Since(began)
}

// Of many callers that come at once, when nobody knows yet that the connection is silent, only those whose
// requests were sent have no answer. The others don't wait for the silent connection again.
func TestManyCallersOnASilentConnection(t *testing.T) {
	const many, sent = 1000, 16 // lanes
	for name, c := range map[string]struct {
		functions bool
		call      func(ctx context.Context, l *pgbackend.Locker, i int) error
	}{
		"TryAcquire by function calls": {true, tryNumbered},
		"TryAcquire by statements":     {false, tryNumbered},
		"LockTx": {true, func(ctx context.Context, l *pgbackend.Locker, i int) error {
			_, err := l.LockTx(ctx, &answeringTx{answers: []string{"granted"}}, fmt.Sprint("n", i))
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, config := piped(t)
				f.before = func(sql string) string {
					if sql == "pg_backend_pid()" && !c.functions {
						return "0A000 no function calls here"
					}
					return ""
				}
				l := openWith(t, config)
				defer closeLocker(t, l)
				lease := acquireAs(t, l, "x")
				f.mutes()
				lost, took := bursts(t, many, func(i int) error { return c.call(t.Context(), l, i) })
				if lost > sent || took > 5*time.Second/2 {
					t.Errorf("%d of %d calls had no answer, and all took %v, want %d at most after 2 s", lost, many, took, sent)
				}
				if n := len(f.connections()); n != 2 || lease.Err() != nil {
					t.Errorf("%d connections, and the lease: %v, want 2 and nil", n, lease.Err())
				}
			})
		})
	}
}

func tryNumbered(ctx context.Context, l *pgbackend.Locker, i int) error {
	_, err := locker.TryAcquire(ctx, l, fmt.Sprint("n", i))
	return err
}

// A request that gives a lock back can be sent on no other connection. If it was withdrawn with others, it is
// sent again on the silent connection, and counts when the server is heard again.
func TestReleasesOnAConnectionThatIsPassedOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const many = 20
		f, l := openPiped(t)
		defer closeLocker(t, l)
		acquireAs(t, l, "x")
		var leases []locker.Lease
		for i := range many {
			leases = append(leases, acquireAs(t, l, fmt.Sprint("held", i)))
		}
		f.change(func(f *fake) { f.slow = 3 * time.Second })
		time.AfterFunc(time.Second, func() { f.change(func(f *fake) { f.slow = 0 }) })
		go func() { // these have the lanes
			_, _ = bursts(t, many, func(i int) error { return tryNumbered(t.Context(), l, i) })
		}()
		synctest.Wait()
		lost, took := bursts(t, many, func(i int) error { return leases[i].Release(t.Context()) })
		if lost != 0 || took != 3*time.Second {
			t.Errorf("%d of %d releases had no answer, and all took %v, want none and 3 s", lost, many, took)
		}
		time.Sleep(20 * time.Second)
		f.change(func(f *fake) {
			for i := range many {
				if f.locks[keyNamed(fmt.Sprint("held", i))] != nil {
					t.Errorf("lock %d is held after its release", i)
				}
			}
		})
	})
}

// The epoch of a connection is over, but the server answers there, maybe late: requests that give a lock back are
// sent, also those that share a message with others. The others don't wait for the answers.
func TestReleasesWhereTheEpochIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const many = 20
		f, config := piped(t)
		f.late = time.Second
		wasLate := false
		f.before = func(sql string) string {
			switch {
			case sql == "pg_backend_pid()":
				return "0A000 no function calls here"
			case strings.HasPrefix(sql, "SELECT 0, pg_advisory_unlock(") && !wasLate:
				wasLate = true
				return "late"
			}
			return ""
		}
		l := openWith(t, config)
		defer closeLocker(t, l)
		acquireAs(t, l, "x")
		var leases []locker.Lease
		for i := range many {
			leases = append(leases, acquireAs(t, l, fmt.Sprint("held", i)))
		}
		f.change(func(f *fake) { f.slow = time.Second / 2 })
		go func() { _, _ = locker.TryAcquire(t.Context(), l, "first") }() // has the lane
		synctest.Wait()
		began := time.Now()
		released := make(chan error, many)
		for i := range many { // what is to be sent next is mixed
			go func() { released <- leases[i].Release(t.Context()) }()
			synctest.Wait()
			go func() {
				if err := tryNumbered(t.Context(), l, i); err != nil || time.Since(began) != time.Second/2 {
					t.Errorf("TryAcquire = %v after %v, want the lock on a connection that is made, after 0.5 s", err, time.Since(began))
				}
			}()
			synctest.Wait()
		}
		f.change(func(f *fake) { f.raised++; f.slow = 0 })
		acquireAs(t, l, "y", locker.WithTTL(time.Second)) // by it the Locker learns of the epoch
		for range many {
			if err := <-released; err != nil || time.Since(began) > 3*time.Second {
				t.Errorf("Release = %v after %v", err, time.Since(began))
			}
		}
		time.Sleep(20 * time.Second)
	})
}

// Where both connections are silent, requests go there all the same: the server may only be slow.
func TestRequestsWhereBothConnectionsAreSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l := openPiped(t)
		defer closeLocker(t, l)
		acquireAs(t, l, "x")
		f.change(func(f *fake) {
			late := map[string]time.Duration{askedFor("first"): 10 * time.Second, askedFor("second"): 7 * time.Second / 2}
			f.before = func(sql string) string {
				if late[sql] == 0 {
					return ""
				}
				f.late = late[sql]
				return "late"
			}
		})
		for _, name := range []string{"first", "second"} {
			if _, err := locker.TryAcquire(t.Context(), l, name); !errors.Is(err, locker.ErrNoAnswer) {
				t.Fatalf("TryAcquire = %v, want ErrNoAnswer", err)
			}
			if name == "first" {
				acquireAs(t, l, "y") // so that the second connection has a lease as well
			}
		}
		began := time.Now()
		if _, err := locker.TryAcquire(t.Context(), l, "c"); err != nil || time.Since(began) != 3*time.Second/2 {
			t.Errorf("TryAcquire = %v after %v, want a lease when the server goes on, after 1.5 s", err, time.Since(began))
		}
		time.Sleep(10 * time.Second) // until all is answered
	})
}
