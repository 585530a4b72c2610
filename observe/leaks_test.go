package observe_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/membackend"
	"github.com/fencedlock/locker/observe"
)

func nothing(context.Context, locker.Lease) error { return nil }

// leaks collects reports.
type leaks struct {
	mu   sync.Mutex
	list []observe.Leak
}

func (l *leaks) report(leak observe.Leak) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = append(l.list, leak)
}

func (l *leaks) take() []observe.Leak {
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	list := l.list
	l.list = nil
	return list
}

func forgetToRelease(t *testing.T, l locker.Locker) locker.Lease {
	lease, err := l.Acquire(t.Context(), "name")
	if err != nil {
		t.Fatal(err)
	}
	return lease
}

// wantLeak fails the test unless there is one report, of a call in that function.
func wantLeak(t *testing.T, list []observe.Leak, state string, lasts time.Duration, function string) {
	t.Helper()
	if len(list) != 1 {
		t.Fatalf("the reports are %+v, want one", list)
	}
	got := list[0]
	if got.State != state || got.For != lasts || got.Name != "name" {
		t.Errorf("the report is of %q, %s for %v; want %s for %v", got.Name, got.State, got.For, state, lasts)
	}
	if len(got.Where) == 0 || !strings.Contains(got.Where[0].Function, function) {
		t.Errorf("the place is %+v, want it to begin with %s", got.Where, function)
	}
}

func TestLeaks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := membackend.New()
		defer l.Close()
		var found leaks
		stop, err := observe.Leaks(l, time.Minute, 2*time.Minute, found.report)
		if err != nil {
			t.Fatal(err)
		}
		if err := locker.Do(t.Context(), l, "other", nothing); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		lease := forgetToRelease(t, l)
		go func() {
			_ = locker.Do(t.Context(), l, "name", nothing) // behind it, through a function of package locker
		}()
		time.Sleep(time.Minute + time.Second)
		if list := found.take(); len(list) != 0 {
			t.Errorf("too early: %+v", list)
		}
		time.Sleep(13 * time.Second) // it looks every 15 s: at 75 s the lease is 74 s old
		wantLeak(t, found.take(), "held", 74*time.Second, "forgetToRelease")
		time.Sleep(time.Minute)
		wantLeak(t, found.take(), "waiting", 134*time.Second, "TestLeaks")
		time.Sleep(time.Hour)
		if list := found.take(); len(list) != 0 {
			t.Errorf("reported again: %+v", list)
		}
		if err := lease.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		lease = forgetToRelease(t, l) // another lease is another leak
		time.Sleep(2 * time.Minute)
		if list := found.take(); len(list) != 1 || list[0].ID <= 3 {
			t.Errorf("the reports are %+v, want one of the new lease", list)
		}
		stop()
		stop()
		_ = lease.Release(t.Context())
		forgetToRelease(t, l)
		time.Sleep(time.Hour)
		if list := found.take(); len(list) != 0 {
			t.Errorf("after stop: %+v", list)
		}
	})
}

// Only one kind is looked for, and Close ends the search: a goroutine that goes on would keep the
// bubble from ending.
func TestLeaksOfOneKindUntilClose(t *testing.T) {
	for _, held := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			l := membackend.New()
			var found leaks
			limits := map[bool]time.Duration{held: time.Minute}
			if _, err := observe.Leaks(l, limits[true], limits[false], found.report); err != nil {
				t.Fatal(err)
			}
			forgetToRelease(t, l)
			ended := make(chan error)
			go func() {
				_, err := l.Acquire(t.Context(), "name")
				ended <- err
			}()
			time.Sleep(time.Hour)
			if list := found.take(); len(list) != 1 || (list[0].State == "held") != held {
				t.Errorf("the reports are %+v, want one that is held: %v", list, held)
			}
			_ = l.Close()
			if err := <-ended; !errors.Is(err, locker.ErrClosed) {
				t.Errorf("Acquire = %v", err)
			}
		})
	}
}

// A call whose service doesn't answer is found, though nothing says where it was made.
func TestLeaksOfASilentService(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := membackend.NewServer()
		l := membackend.New(membackend.WithServer(s))
		defer l.Close()
		defer s.Resume()
		var found leaks
		stop, err := observe.Leaks(l, 0, time.Second, found.report)
		if err != nil {
			t.Fatal(err)
		}
		defer stop()
		s.Pause()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() { _, _ = l.Acquire(ctx, "name") }()
		time.Sleep(2 * time.Second)
		if list := found.take(); len(list) != 1 || list[0].State != "waiting" || list[0].Where != nil {
			t.Errorf("the reports are %+v", list)
		}
	})
}

func TestLeaksNeedsEvents(t *testing.T) {
	if _, err := observe.Leaks(opaque{membackend.New()}, time.Minute, 0, nil); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("Leaks = %v, want ErrUnsupported", err)
	}
}

// What was released is forgotten at once, and not at the next look.
func TestLeaksRemembersNothingOfWhatIsReleased(t *testing.T) {
	for _, limit := range []time.Duration{0, time.Hour} {
		l := membackend.New()
		defer l.Close()
		stop, err := observe.Leaks(l, limit, 0, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer stop()
		before := heap()
		for range 20_000 {
			if err := locker.Do(t.Context(), l, "name", nothing); err != nil {
				t.Fatal(err)
			}
			if s, _ := locker.StatsOf(l); s.EventsDropped > 0 {
				t.Skip("this machine is too slow to deliver the events")
			}
		}
		if grown := heap() - before; grown > 3<<20 {
			t.Errorf("with the limit %v the heap has grown by %d KB", limit, grown>>10)
		}
	}
}

func heap() int64 {
	var m runtime.MemStats
	time.Sleep(100 * time.Millisecond) // events are on their way
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// A goroutine that goes on would keep the bubble from ending.
func TestLeaksOfAClosedLocker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := membackend.New()
		_ = l.Close()
		if _, err := observe.Leaks(l, time.Minute, 0, nil); err != nil {
			t.Fatal(err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		l := membackend.New()
		gate := make(chan struct{})
		_, _ = locker.Observe(l, observe.Func(func(context.Context, locker.Event) { <-gate }), 0)
		if _, err := observe.Leaks(l, time.Minute, 0, nil); err != nil {
			t.Fatal(err)
		}
		forgetToRelease(t, l)
		_ = l.Close() // nobody hears of it
		time.Sleep(time.Hour)
		close(gate)
	})
}

// stop may come during a report: that is the last one.
func TestLeaksStoppedByAReport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := membackend.New()
		defer l.Close()
		var stop func()
		reports := 0
		stop, err := observe.Leaks(l, time.Minute, 0, func(observe.Leak) {
			reports++
			stop()
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"a", "b", "c"} {
			if _, err := l.Acquire(t.Context(), name); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Hour)
		if reports != 1 {
			t.Errorf("%d reports, want 1", reports)
		}
	})
}

// A report may end its goroutine, as a test's FailNow does. The next looks come all the same.
func TestLeakReportThatEndsItsGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := membackend.New()
		defer l.Close()
		var reports leaks
		stop, err := observe.Leaks(l, time.Minute, 0, func(leak observe.Leak) {
			reports.report(leak)
			runtime.Goexit()
		})
		if err != nil {
			t.Fatal(err)
		}
		defer stop()
		for range 2 {
			lease := forgetToRelease(t, l)
			time.Sleep(time.Hour)
			if list := reports.take(); len(list) != 1 {
				t.Errorf("%d reports, want one", len(list))
			}
			if err := lease.Release(t.Context()); err != nil {
				t.Error(err)
			}
		}
	})
}
