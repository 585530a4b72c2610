package kit_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver/kit"
)

// outcome is what became of a Do of a Flight, or of a Join.
type outcome[T any] struct {
	value T
	err   error
}

func start[T any](do func() (T, error)) chan outcome[T] {
	c := make(chan outcome[T], 1)
	go func() {
		value, err := do()
		c <- outcome[T]{value, err}
	}()
	synctest.Wait()
	return c
}

// flight is a Flight whose calls take a second and return their number, or errService as often as failing says.
type flight struct {
	kit.Flight[int]
	tasks   *kit.Tasks
	calls   int
	failing int
}

func newFlight(t *testing.T) *flight {
	f := &flight{tasks: kit.NewTasks()}
	t.Cleanup(func() { _ = f.tasks.Close(context.Background()) })
	return f
}

func (f *flight) do(ctx context.Context) chan outcome[int] {
	return start(func() (int, error) {
		return f.Do(ctx, f.tasks, func(ctx context.Context) (int, error) {
			f.calls++
			n := f.calls
			switch {
			case !kit.Sleep(ctx, time.Second):
				return 0, context.Cause(ctx)
			case n <= f.failing:
				return 0, errService
			}
			return n, nil
		})
	})
}

func TestFlightServesAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFlight(t)
		ctx, cancel := context.WithCancelCause(t.Context())
		first := f.do(ctx)
		second := f.do(t.Context())
		time.Sleep(time.Second / 2)
		third := f.do(t.Context())
		cancel(errCause) // it goes on for the others
		matches(t, "Do of a caller that leaves", (<-first).err, errCause)
		for _, c := range []chan outcome[int]{second, third} {
			if o := <-c; o.err != nil || o.value != 1 {
				t.Errorf("Do = %d, %v, want what the first call has made", o.value, o.err)
			}
		}
		if o := <-f.do(t.Context()); o.err != nil || o.value != 2 {
			t.Errorf("Do = %d, %v, want the result of a new call", o.value, o.err)
		}
	})
}

func TestFlightWhenTheTimeIsUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFlight(t)
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		err := (<-f.do(ctx)).err
		matches(t, "Do", err, locker.ErrNoAnswer)
		matchesNone(t, "Do", err, context.DeadlineExceeded)
	})
}

func TestFlightThatFails(t *testing.T) {
	for _, tc := range []struct {
		name      string
		transient bool
		failing   int
		calls     int
		first     bool // the first caller succeeds
		joined    bool // those that have joined succeed
	}{
		{"for a reason that lasts", false, 1, 1, false, false},
		{"once", true, 1, 2, false, true},
		{"twice", true, 2, 2, false, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFlight(t)
				f.failing = tc.failing
				f.Transient = func(error) bool { return tc.transient }
				first := f.do(t.Context())
				joined := []chan outcome[int]{f.do(t.Context()), f.do(t.Context())}
				if o := <-first; (o.err == nil) != tc.first {
					t.Errorf("Do of the first = %d, %v", o.value, o.err)
				}
				for _, c := range joined {
					if o := <-c; (o.err == nil) != tc.joined {
						t.Errorf("Do of one that has joined = %d, %v", o.value, o.err)
					} else if o.err != nil {
						matches(t, "Do", o.err, errService)
					}
				}
				if f.calls != tc.calls {
					t.Errorf("there were %d calls, want %d", f.calls, tc.calls)
				}
			})
		})
	}
}

func TestFlightAfterTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFlight(t)
		under := f.do(t.Context())
		f.tasks.Stop(errCause)
		matches(t, "Do of one that waits", (<-under).err, errCause)
		matches(t, "Do after the end", (<-f.do(t.Context())).err, kit.ErrClosing)
		if f.calls != 1 {
			t.Errorf("there were %d calls, want 1", f.calls)
		}
	})
}
