package observe_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/membackend"
	"github.com/fencedlock/locker/observe"
)

func waitForPermit(ctx context.Context, l locker.Locker, n int) {
	if lease, err := locker.AcquirePermit(ctx, l, "name", n); err == nil {
		_ = lease.Release(context.WithoutCancel(ctx))
	}
}

// A call of AcquirePermit that waits is one leak that waits, though it holds the line's lease and
// waits for several slots. It stays the same one when it becomes the first in the line.
func TestLeaksOfPermits(t *testing.T) {
	const n = 5
	synctest.Test(t, func(t *testing.T) {
		s := membackend.NewServer()
		other, l := membackend.New(membackend.WithServer(s)), membackend.New(membackend.WithServer(s))
		defer other.Close()
		defer l.Close()
		var held []locker.Lease
		for range n {
			lease, err := locker.TryAcquirePermit(t.Context(), other, "name", n)
			if err != nil {
				t.Fatal(err)
			}
			held = append(held, lease)
		}
		ahead, cancel := context.WithCancel(t.Context())
		defer cancel()
		go waitForPermit(ahead, other, n) // the first in the line, for some time
		synctest.Wait()
		var found leaks
		stop, err := observe.Leaks(l, time.Minute, 2*time.Minute, found.report)
		if err != nil {
			t.Fatal(err)
		}
		defer stop()
		go waitForPermit(t.Context(), l, n)
		time.Sleep(100 * time.Second)
		cancel()
		time.Sleep(40 * time.Second) // it looks every 15 s
		list := found.take()
		wantLeak(t, list, "waiting", 135*time.Second, "waitForPermit")
		if got := list[0]; got.Slot != locker.LineSlot || got.Token != 0 || !got.Deadline.IsZero() {
			t.Errorf("the report is %+v, want the permit that is waited for, which isn't held", got)
		}
		time.Sleep(time.Hour)
		if list := found.take(); len(list) != 0 {
			t.Errorf("reported again: %+v", list)
		}
		for _, lease := range held {
			if err := lease.Release(t.Context()); err != nil {
				t.Error(err)
			}
		}
	})
}

func acquirePermit(t *testing.T, l locker.Locker) locker.Lease {
	lease, err := locker.AcquirePermit(t.Context(), l, "name", 1)
	if err != nil {
		t.Error(err)
	}
	return lease
}

func acquireBoth(t *testing.T, l locker.Locker) {
	if _, err := locker.AcquireAll(t.Context(), l, locker.Wants("name", "other")); err != nil {
		t.Error(err)
	}
}

// A leak of a permit that was waited for, or of several locks, names the place of the call, which acquires them on
// other goroutines.
func TestLeaksAcquiredOnOtherGoroutines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := membackend.New()
		defer l.Close()
		var found leaks
		stop, err := observe.Leaks(l, time.Minute, 0, found.report)
		if err != nil {
			t.Fatal(err)
		}
		defer stop()
		first := acquirePermit(t, l)
		go acquirePermit(t, l)
		time.Sleep(time.Second)
		if err := first.Release(t.Context()); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Second)
		acquireBoth(t, l)
		time.Sleep(2 * time.Minute)
		list := found.take()
		if len(list) != 3 {
			t.Fatalf("the reports are %+v, want three", list)
		}
		for _, leak := range list {
			want := "acquireBoth"
			if leak.Slot > 0 {
				want = "acquirePermit"
			}
			if len(leak.Where) == 0 || !strings.HasSuffix(leak.Where[0].Function, want) {
				t.Errorf("the place of %s is %+v, want it to begin with %s", leak, leak.Where, want)
			}
		}
	})
}
