package kit_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver/kit"
)

// site is where sessions of a test are. Its service takes a second to open one, and fails as often as failing says.
type site struct {
	*kit.Sessions[*session]
	tasks   *kit.Tasks
	made    []*session
	failing int
	closing func() // optional: called by a session's Close
}

type session struct {
	site   *site
	ttl    time.Duration
	over   atomic.Bool
	closed atomic.Int32
}

func (s *session) Usable() bool { return !s.over.Load() && s.closed.Load() == 0 }

func (s *session) Close(context.Context) error {
	if s.site.closing != nil {
		s.site.closing()
	}
	s.closed.Add(1)
	return nil
}

func newSite(t *testing.T, change func(*kit.SessionOptions[*session])) *site {
	s := &site{tasks: kit.NewTasks()}
	o := kit.SessionOptions[*session]{
		Tasks: s.tasks,
		Max:   2,
		Each:  "a session of its own",
		New: func(ttl time.Duration) *session {
			made := &session{site: s, ttl: ttl}
			s.made = append(s.made, made)
			return made
		},
		Open: func(ctx context.Context, _ *session) error {
			n := len(s.made)
			switch {
			case !kit.Sleep(ctx, time.Second):
				return context.Cause(ctx)
			case n <= s.failing:
				return errService
			}
			return nil
		},
		Transient: func(err error) bool { return errors.Is(err, errService) },
	}
	if change != nil {
		change(&o)
	}
	s.Sessions = kit.NewSessions(o)
	t.Cleanup(func() { _ = s.tasks.Close(context.Background()) })
	return s
}

func (s *site) join(ctx context.Context, ttl time.Duration) chan outcome[*session] {
	return start(func() (*session, error) { return s.Join(ctx, ttl) })
}

// joined is a session that can be joined.
func (s *site) joined(t *testing.T, ttl time.Duration) *session {
	t.Helper()
	o := <-s.join(t.Context(), ttl)
	if o.err != nil || o.value.ttl != ttl {
		t.Fatalf("Join(%v) = %v, %v", ttl, o.value, o.err)
	}
	return o.value
}

func TestASessionIsOpenedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, nil)
		ctx, cancel := context.WithCancelCause(t.Context())
		first := s.join(ctx, time.Second)
		second, third := s.join(t.Context(), time.Second), s.join(t.Context(), time.Second)
		cancel(errCause) // it is opened for the others
		matches(t, "Join of a caller that leaves", (<-first).err, errCause)
		if a, b := <-second, <-third; a.err != nil || b.err != nil || a.value != b.value || len(s.made) != 1 {
			t.Errorf("Join = %v and %v, with %d sessions made, want one", a, b, len(s.made))
		}
		if found, ok := s.Any(); !ok || found != s.made[0] {
			t.Errorf("Any = %v, %v, want the session", found, ok)
		}
	})
}

func TestWhyASessionIsSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, slow := range []func(*session) error{nil, func(*session) error { return errService }} {
			s := newSite(t, func(o *kit.SessionOptions[*session]) { o.Slow = slow })
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			defer cancel()
			err, want := (<-s.join(ctx, time.Second)).err, locker.ErrNoAnswer
			if slow != nil {
				want = errService
			}
			matches(t, "Join", err, want)
			matchesNone(t, "Join", err, context.DeadlineExceeded)
			time.Sleep(time.Minute)
			if s.joined(t, time.Second); len(s.made) != 1 {
				t.Errorf("%d sessions were made, want 1: the opening goes on", len(s.made))
			}
		}
	})
}

func TestTheBoundOfSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, nil)
		a, again := s.joined(t, 20*time.Second), s.joined(t, 20*time.Second)
		s.joined(t, 3*time.Second)
		refused := func() {
			t.Helper()
			err := (<-s.join(t.Context(), time.Second)).err
			matches(t, "Join of one TTL too many", err, locker.ErrTooManyTTLs)
			matchesNone(t, "Join of one TTL too many", err, locker.ErrOption) // which would fail again
			if text := "TTL 1s: want one of those in use (3s, 20s), because each TTL needs a session of its own and there are at most 2"; err == nil || !strings.Contains(err.Error(), text) {
				t.Errorf("Join = %v, want %s", err, text)
			}
		}
		refused()
		s.Leave(a)
		refused() // another caller uses it
		s.Leave(again)
		if s.joined(t, 20*time.Second) != a || a.closed.Load() > 0 {
			t.Error("a session that nobody uses didn't stay")
		}
		s.Leave(a)
		c := s.joined(t, time.Second)
		synctest.Wait()
		if a.closed.Load() != 1 || s.made[1].closed.Load() > 0 || c.closed.Load() > 0 {
			t.Error("the session that nobody uses was not ended in favour of another one")
		}
	})
}

// A caller that has got any session uses it, as a caller that has asked for its TTL does.
func TestAnySessionIsUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, func(o *kit.SessionOptions[*session]) { o.Max = 1 })
		if _, ok := s.Any(); ok {
			t.Error("Any = true without a session")
		}
		s.Leave(s.joined(t, time.Second))
		found, _ := s.Any()
		matches(t, "Join of another TTL", (<-s.join(t.Context(), time.Minute)).err, locker.ErrTooManyTTLs)
		s.Leave(found)
		s.joined(t, time.Minute)
	})
}

// A caller that takes any session doesn't keep the place of one that nobody uses, as long as there is
// another one.
func TestAnySessionIsOneInUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most = 8
		s := newSite(t, func(o *kit.SessionOptions[*session]) { o.Max = most })
		var idle *session
		for i := range most {
			idle = s.joined(t, time.Duration(i+1)*time.Second)
		}
		s.Leave(idle)
		for range 50 {
			found, ok := s.Any()
			if !ok || found == idle {
				t.Fatalf("Any = %v, %v, want one of the sessions in use", found, ok)
			}
			s.Leave(found)
		}
		found, _ := s.Any()
		s.joined(t, time.Minute)
		s.Leave(found)
	})
}

// A session that is being opened is not evicted, though the only caller has left: it would be opened for nobody.
func TestASessionThatOpensStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, func(o *kit.SessionOptions[*session]) { o.Max = 1 })
		ctx, cancel := context.WithCancel(t.Context())
		first := s.join(ctx, time.Second)
		cancel()
		<-first
		matches(t, "Join", (<-s.join(t.Context(), time.Minute)).err, locker.ErrTooManyTTLs)
		time.Sleep(2 * time.Second)
		s.joined(t, time.Minute)
		synctest.Wait()
		if s.made[0].closed.Load() != 1 {
			t.Error("the session that nobody uses was not ended")
		}
	})
}

func TestASessionThatCannotBeOpened(t *testing.T) {
	for _, transient := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			s := newSite(t, func(o *kit.SessionOptions[*session]) {
				if !transient {
					o.Transient = nil
				}
			})
			s.failing = 1
			first, second := s.join(t.Context(), time.Second), s.join(t.Context(), time.Second)
			matches(t, "Join", (<-first).err, errService)
			o := <-second // the failure may be from before it came
			if (o.err == nil) != transient {
				t.Errorf("Join of one that has joined = %v, want a new opening: %v", o, transient)
			}
			s.Leave(s.made[0]) // does nothing
			if s.made[0].closed.Load() > 0 {
				t.Error("a session that was never open was closed")
			}
			if b := s.joined(t, time.Second); b != s.made[1] {
				t.Error("the session that couldn't be opened is in the way")
			}
		})
	}
}

func TestASessionThatEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, nil)
		a, again := s.joined(t, time.Second), s.joined(t, time.Second)
		a.over.Store(true)
		if _, ok := s.Any(); ok {
			t.Error("Any = true, with a session that has ended")
		}
		b := s.joined(t, time.Second)
		if b == a {
			t.Fatal("Join = the session that has ended")
		}
		s.Leave(a)
		synctest.Wait()
		if a.closed.Load() != 0 {
			t.Error("a session was closed that a caller uses")
		}
		s.Leave(again)
		synctest.Wait()
		if a.closed.Load() != 1 || b.closed.Load() != 0 {
			t.Errorf("the session that has ended was closed %d times, its successor %d times, want 1 and 0", a.closed.Load(), b.closed.Load())
		}
		s.Leave(b)
		b.over.Store(true) // while nobody uses it
		c := s.joined(t, time.Second)
		synctest.Wait()
		if b.closed.Load() != 1 || c.closed.Load() != 0 {
			t.Errorf("the session that has ended was closed %d times, its successor %d times, want 1 and 0", b.closed.Load(), c.closed.Load())
		}
	})
}

func TestSessionsClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, nil)
		used := s.joined(t, time.Second)
		opening := s.join(t.Context(), time.Minute)
		s.closing = func() {
			if _, ok := s.Any(); ok {
				t.Error("Any = true while the sessions are being closed")
			}
		}
		if err := s.Close(t.Context()); err != nil {
			t.Errorf("Close = %v", err)
		}
		if used.closed.Load() != 1 || s.made[1].closed.Load() != 1 {
			t.Errorf("Close has closed the sessions %d and %d times, want each once", used.closed.Load(), s.made[1].closed.Load())
		}
		matches(t, "Join", (<-opening).err, locker.ErrClosed)
		synctest.Wait()
		if s.made[1].closed.Load() != 2 {
			t.Error("a session that was opened after Close was left open")
		}
		matches(t, "Join", (<-s.join(t.Context(), time.Second)).err, locker.ErrClosed)
		if _, ok := s.Any(); ok {
			t.Error("Any = true after Close")
		}
		s.Leave(used) // what a caller does when it notices
	})
}

// A session that couldn't be ended when it was evicted, because tasks are refused, is ended by Close.
func TestAnEvictedSessionIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, func(o *kit.SessionOptions[*session]) { o.Open = nil })
		a := s.joined(t, time.Second)
		s.tasks.Stop(errCause)
		a.over.Store(true)
		s.Leave(a)
		if err := s.Close(t.Context()); err != nil || a.closed.Load() != 1 {
			t.Errorf("Close = %v, the session was closed %d times", err, a.closed.Load())
		}
	})
}
