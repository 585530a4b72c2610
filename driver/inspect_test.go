package driver_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
)

// paged is a driver whose service lists two locks on each of some pages.
type paged struct {
	mute
	pages int
	page  func(ctx context.Context) error // before each answer
}

func (d paged) Inspect(ctx context.Context, name string, _ locker.Look) (locker.Status, error) {
	return locker.Status{Name: name}, d.page(ctx)
}

func (d paged) List(prefix string, _ int) driver.Pages {
	n := 0
	return func(ctx context.Context) ([]locker.Status, bool, error) {
		n++
		return []locker.Status{{Name: fmt.Sprint(prefix, n, "a")}, {Name: fmt.Sprint(prefix, n, "b")}}, n < d.pages, d.page(ctx)
	}
}

func answers(context.Context) error { return nil }

func listAll(ctx context.Context, l locker.Locker) (n int, err error) {
	for _, err := range locker.List(ctx, l, "p", 0) {
		if err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

func TestListReadsAllPages(t *testing.T) {
	l := driver.New(paged{pages: 3, page: answers}, driver.Config{})
	defer l.Close()
	for range 2 { // a list can be read again
		if n, err := listAll(t.Context(), l); n != 6 || err != nil {
			t.Errorf("List = %d locks, %v, want 6", n, err)
		}
	}
	calls := 0
	counting := driver.New(paged{pages: 3, page: func(context.Context) error { calls++; return nil }}, driver.Config{})
	defer counting.Close()
	for _, err := range locker.List(t.Context(), counting, "", 0) {
		if err != nil {
			t.Errorf("List = %v", err)
		}
		break
	}
	if calls != 1 {
		t.Errorf("a list that was left after its first lock has read %d pages, want 1", calls)
	}
}

func TestInspectRefusesBadArguments(t *testing.T) {
	l := driver.New(paged{pages: 1, page: answers}, driver.Config{})
	defer l.Close()
	_, err := locker.Inspect(t.Context(), l, "", locker.Look{})
	matches(t, "Inspect of no name", err, locker.ErrName)
	_, err = locker.Inspect(t.Context(), l, "a", locker.Look{Waiters: -1})
	matches(t, "Inspect with -1 waiters", err, locker.ErrOption)
	for _, err := range locker.List(t.Context(), l, "\n", 0) {
		matches(t, "List of a bad prefix", err, locker.ErrName)
	}
	deaf := driver.New(mute{}, driver.Config{})
	defer deaf.Close()
	_, err = locker.Inspect(t.Context(), deaf, "a", locker.Look{})
	matches(t, "Inspect where the driver can't tell", err, locker.ErrNoInspector)
	_, err = listAll(t.Context(), deaf)
	matches(t, "List where the driver can't tell", err, locker.ErrNoInspector)
}

// Each page has the engine's time limit, and all of them together have the caller's.
func TestListOfASlowService(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := driver.New(paged{pages: 3, page: func(ctx context.Context) error {
			select {
			case <-time.After(4 * time.Second):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}}, driver.Config{})
		defer l.Close()
		if n, err := listAll(t.Context(), l); n != 6 || err != nil {
			t.Errorf("List with 4 s for each page = %d locks, %v, want all", n, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 9*time.Second)
		defer cancel()
		n, err := listAll(ctx, l)
		matches(t, "List of a caller that waits for 9 s", err, context.DeadlineExceeded)
		if n != 4 {
			t.Errorf("List for 9 s = %d locks, want those of two pages", n)
		}
		silent := driver.New(paged{pages: 3, page: func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		}}, driver.Config{})
		defer silent.Close()
		if _, err := listAll(t.Context(), silent); err == nil || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("List of a silent service = %v, want an error that isn't the caller's", err)
		}
	})
}

// Close doesn't wait for a caller between two pages, and the next page is refused.
func TestCloseDuringAList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := driver.New(paged{pages: 2, page: answers}, driver.Config{})
		n := 0
		for _, err := range locker.List(t.Context(), l, "", 0) {
			if n++; n == 1 {
				began := time.Now()
				if err := l.Close(); err != nil || time.Since(began) > 0 {
					t.Errorf("Close = %v after %v, want nil at once", err, time.Since(began))
				}
			}
			if n == 3 {
				matches(t, "the second page", err, locker.ErrClosed)
			}
		}
		if n != 3 {
			t.Errorf("the list has ended after %d locks, want an error after the first page", n)
		}
	})
}

// A driver that notices the end of the caller's time a moment before the context does has still run
// out of the caller's time.
func TestInspectThatEndsWithTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		early := errors.New("i/o timeout")
		l := driver.New(paged{pages: 1, page: func(context.Context) error {
			time.Sleep(time.Second)
			return early
		}}, driver.Config{})
		defer l.Close()
		ctx := &lateContext{Context: t.Context(), until: time.Now().Add(time.Second), done: make(chan struct{})}
		time.AfterFunc(time.Second+time.Millisecond, func() { close(ctx.done) })
		_, err := locker.Inspect(ctx, l, "a", locker.Look{})
		matches(t, "Inspect", err, context.DeadlineExceeded)
	})
}

// A context with a deadline may never be done.
func TestInspectWithAContextThatIsNeverDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := errors.New("down")
		l := driver.New(paged{pages: 1, page: func(context.Context) error {
			time.Sleep(time.Second)
			return down
		}}, driver.Config{})
		defer l.Close()
		_, err := locker.Inspect(&lateContext{Context: t.Context(), until: time.Now().Add(time.Second)}, l, "a", locker.Look{})
		matches(t, "Inspect", err, down)
	})
}

// greedy is a driver that keeps how many waiters it was asked for.
type greedy struct {
	mute
	asked *int
}

func (d greedy) Inspect(_ context.Context, name string, look locker.Look) (locker.Status, error) {
	*d.asked = look.Waiters
	return locker.Status{Name: name}, nil
}

func (d greedy) List(_ string, waiters int) driver.Pages {
	*d.asked = waiters
	return func(context.Context) ([]locker.Status, bool, error) { return nil, false, nil }
}

// A driver may add to the number of waiters, and send it to services that have smaller numbers.
func TestInspectAsksForAPlausibleNumberOfWaiters(t *testing.T) {
	asked := -1
	l := driver.New(greedy{asked: &asked}, driver.Config{})
	defer l.Close()
	for waiters, want := range map[int]int{0: 0, 7: 7, math.MaxInt: 1 << 20} {
		if _, err := locker.Inspect(t.Context(), l, "a", locker.Look{Waiters: waiters}); err != nil || asked != want {
			t.Errorf("Inspect with %d waiters asks for %d, %v, want %d", waiters, asked, err, want)
		}
		asked = -1
		for _, err := range locker.List(t.Context(), l, "", waiters) {
			t.Errorf("List = %v", err)
		}
		if asked != want {
			t.Errorf("List with %d waiters asks for %d, want %d", waiters, asked, want)
		}
	}
}

// lateContext ends a moment after its deadline.
type lateContext struct {
	context.Context
	until time.Time
	done  chan struct{}
}

func (c *lateContext) Deadline() (time.Time, bool) { return c.until, true }
func (c *lateContext) Done() <-chan struct{}       { return c.done }
func (c *lateContext) Err() error {
	select {
	case <-c.done:
		return context.DeadlineExceeded
	default:
		return nil
	}
}
