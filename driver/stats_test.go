package driver_test

import (
	"cmp"
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
)

// leasesOf lists what l has, by id.
func leasesOf(t testing.TB, l locker.Locker) []locker.LeaseInfo {
	t.Helper()
	list, ok := locker.Leases(l)
	if !ok {
		t.Fatal("Leases knows nothing of the engine")
	}
	slices.SortFunc(list, func(a, b locker.LeaseInfo) int { return cmp.Compare(a.ID, b.ID) })
	return list
}

func TestStats(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := &fake{
			acquire: func(ctx context.Context, l *fakeLock) (driver.Grant, error) {
				switch l.req.Name {
				case "held":
					return grant(l), nil
				case "hangs":
					return driver.Grant{}, hang(ctx)
				}
				return queues(nil)(ctx, l)
			},
			renew:   func(context.Context, *fakeLock) (driver.Instant, error) { return 0, errService },
			release: func(context.Context, *fakeLock) error { return errRevoked },
			leaves:  true,
		}
		l := open(t, f)
		if s := statsOf(t, l); s.Held+s.Waiting+s.Removing != 0 || s.OldestHeld+s.OldestRemoving+s.OldestWaiting != 0 || len(s.Refused) != 0 {
			t.Errorf("Stats of a new Locker = %+v", s)
		}
		began := time.Now()
		lease := mustAcquire(t, l, "held", locker.WithoutRenewal()) // 1
		time.Sleep(time.Second)
		start(t, l, "queue").waits() // 2
		time.Sleep(time.Second)
		start(t, l, "queue").waits() // 3
		time.Sleep(time.Second)
		start(t, l, "hangs", locker.NoWait()).waits() // 4
		removed := mustAcquire(t, l, "held")          // 5
		time.Sleep(time.Second)
		_ = removed.Release(t.Context())
		time.Sleep(time.Second)
		_ = lease.Renew(callerContext(t)) // a failure by hand isn't the lease's last word

		s := statsOf(t, l)
		if s.Held != 1 || s.Waiting != 3 || s.Removing != 1 || s.Granted != 2 || s.RenewalsFailed != 1 {
			t.Errorf("Stats = %+v", s)
		}
		if s.OldestHeld != 5*time.Second || s.OldestWaiting != 4*time.Second || s.OldestRemoving != time.Second {
			t.Errorf("the oldest are %v, %v and %v", s.OldestHeld, s.OldestWaiting, s.OldestRemoving)
		}
		at := func(d time.Duration) time.Time { return began.Add(d) }
		want := []locker.LeaseInfo{
			{ID: 1, Name: "held", Token: 1, State: "held", Since: began, Deadline: began.Add(validity)},
			{ID: 2, Name: "queue", State: "waiting", Since: at(time.Second), Err: errService},
			{ID: 3, Name: "queue", State: "waiting", Since: at(2 * time.Second)},
			{ID: 4, Name: "hangs", State: "waiting", Since: at(3 * time.Second)},
			{ID: 5, Name: "held", Token: 5, State: "removing", Since: at(4 * time.Second), Err: errRevoked},
		}
		got := leasesOf(t, l)
		if len(got) != len(want) {
			t.Fatalf("Leases = %+v, want %+v", got, want)
		}
		for i, g := range got {
			w := want[i]
			if !g.Since.Equal(w.Since) || !g.Deadline.Equal(w.Deadline) {
				t.Errorf("%d: since %v, want %v; until %v, want %v", g.ID, g.Since, w.Since, g.Deadline, w.Deadline)
			}
			w.Holder = locker.DefaultHolder()
			g.Since, g.Deadline, w.Since, w.Deadline = time.Time{}, time.Time{}, time.Time{}, time.Time{}
			if g.Token > 0 {
				g.Token = w.Token // the fake counts the acquisitions of waiters too
			}
			if g != w {
				t.Errorf("Leases has %+v, want %+v", g, w)
			}
		}
	})
}

// A lease without a TTL has no deadline.
func TestStatsWithoutTTL(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := openWith(t, &fake{}, driver.Config{})
		w := watch(t, l)
		lease := mustAcquire(t, l, "name")
		if got := leasesOf(t, l); len(got) != 1 || !got[0].Deadline.IsZero() {
			t.Errorf("Leases = %+v", got)
		}
		_ = lease.Renew(callerContext(t))
		w.wants(t, locker.Event{Kind: locker.EventGranted, ID: 1, Token: 1}, locker.Event{Kind: locker.EventRenewed, ID: 1, Token: 1})
	})
}

// What a caller has left behind isn't waiting any more.
func TestStatsOfACallerThatHasLeft(t *testing.T) {
	ignoringBubble(t, func(t *testing.T) {
		for _, opts := range [][]locker.Option{nil, {locker.NoWait()}} {
			var up atomic.Bool
			f := &fake{
				acquire: func(context.Context, *fakeLock) (driver.Grant, error) {
					time.Sleep(ttl) // ignores its context
					return driver.Grant{}, errService
				},
				release: func(context.Context, *fakeLock) error {
					if !up.Load() {
						return errService
					}
					return nil
				},
			}
			l := open(t, f)
			p := start(t, l, "name", opts...)
			time.Sleep(time.Second)
			p.waits()
			p.cancel(nil)
			_ = p.failed()
			time.Sleep(time.Second)
			if s := statsOf(t, l); s.Waiting != 0 || s.Removing != 1 || s.OldestRemoving != time.Second {
				t.Errorf("Stats = %+v", s)
			}
			time.Sleep(ttl)
			if s := statsOf(t, l); s.OldestRemoving != ttl+time.Second {
				t.Errorf("Stats = %+v, want it counted from when the caller left", s)
			}
			up.Store(true)
			time.Sleep(time.Minute)
			if s := statsOf(t, l); s.Removing != 0 {
				t.Errorf("Stats = %+v after the removal", s)
			}
		}
	})
}

// What a failed acquisition has left is to be removed since its failure.
func TestStatsOfWhatAFailureLeft(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := &fake{
			acquire: func(context.Context, *fakeLock) (driver.Grant, error) { return driver.Grant{}, errService },
			release: func(context.Context, *fakeLock) error { return errService },
			leaves:  true,
		}
		l := open(t, f)
		_, _ = l.Acquire(t.Context(), "name")
		time.Sleep(time.Second)
		if s := statsOf(t, l); s.Removing != 1 || s.OldestRemoving != time.Second {
			t.Errorf("Stats = %+v", s)
		}
	})
}

// A driver that panics is a failure like another.
func TestStatsOfAPanic(t *testing.T) {
	obeyingBubble(t, func(t *testing.T) {
		l := open(t, &fake{acquire: func(context.Context, *fakeLock) (driver.Grant, error) { panic(errPanic) }})
		w := new(watcher)
		attach(t, l, w, locker.EventRefused)
		func() {
			defer func() { _ = recover() }()
			_, _ = l.Acquire(t.Context(), "name")
		}()
		if s := statsOf(t, l); s.Refused["error"] != 1 {
			t.Errorf("Stats = %+v", s)
		}
		if len(w.take()) != 1 {
			t.Error("there is no event of the call")
		}
	})
}

// A caller's error may have methods that call the Locker. So it isn't compared under the mutex.
func TestStatsAndANosyCause(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := open(t, &fake{acquire: queues(nil)})
		watch(t, l)
		p := start(t, l, "name")
		p.waits()
		p.cancel(nosyError{l})
		matches(t, "Acquire", p.failed(), context.Canceled)
	})
	bubble(t, func(t *testing.T) {
		l := open(t, &fake{acquire: func(ctx context.Context, _ *fakeLock) (driver.Grant, error) {
			<-ctx.Done()
			return driver.Grant{}, context.Cause(ctx)
		}})
		p := start(t, l, "name")
		p.waits()
		p.cancel(nosyError{l})
		matches(t, "Acquire", p.failed(), context.Canceled)
	})
}

// nosyError calls its Locker when it is compared.
type nosyError struct{ l locker.Locker }

func (nosyError) Error() string { return "nosy" }

func (n nosyError) Is(error) bool {
	driver.TouchMutex(n.l)
	return false
}

// A call that has the line of a name is one that waits, also while it looks at a slot.
func TestLooksAtSlotsAreNoCalls(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := &fake{acquire: func(ctx context.Context, l *fakeLock) (driver.Grant, error) {
			if l.req.Slot > 0 {
				return driver.Grant{}, hang(ctx)
			}
			return grant(l), nil
		}}
		l := openWithSlots(t, f)
		mustAcquire(t, l, "name", onSlot(locker.LineSlot))
		look := start(t, l, "name", onSlot(1), locker.NoWait())
		synctest.Wait()
		if s, _ := locker.StatsOf(l); s.Waiting != 1 || s.Held != 0 {
			t.Errorf("%d calls wait and %d leases are held, want 1 and none", s.Waiting, s.Held)
		}
		start(t, l, "other", onSlot(1), locker.NoWait())
		synctest.Wait()
		if s, _ := locker.StatsOf(l); s.Waiting != 2 {
			t.Errorf("%d calls wait, want 2: the second name has no line", s.Waiting)
		}
		look.cancel(nil)
	})
}
