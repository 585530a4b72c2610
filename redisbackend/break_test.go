package redisbackend_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/internal/redisconn/redistest"
)

var bob = locker.Breach{By: "bob@ops-1", Reason: "hangs since 17:50", At: time.UnixMilli(1795370723000).UTC()}

// withBreach is the answer of a script that contains a breach.
func withBreach(outcome int, text string) string {
	return fmt.Sprintf("*2\r\n:%d\r\n%s", outcome, redistest.Bulk(text))
}

// breakA breaks the lock a of the token 7, and returns what was sent after the look.
func breakA(t *testing.T, f *fake, b locker.Breach, replies ...string) (effect locker.Effect, sent []string, err error) {
	t.Helper()
	d := f.driver(t, nil)
	f.answers(replies...)
	effect, err = d.(driver.Breaker).Break(t.Context(), "a", 7, b)
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.calls) > 1 {
		sent = f.calls[1][3:]
	}
	return effect, sent, err
}

func TestBreak(t *testing.T) {
	now := bob
	now.AtOnce = true
	const denied = "-NOPERM this user has no permissions to run the 'evalsha' command\r\n"
	for _, c := range []struct {
		what, look, answer string
		b                  locker.Breach
		within             time.Duration
		err                error
	}{
		{"marked", inspected("own 7", 5000, 0), "*3\r\n:1\r\n:4000\r\n:0\r\n", bob, 4001 * time.Millisecond, nil},
		{"marked, and somebody has removed the expiry", inspected("own 7", -1, 0), "*3\r\n:1\r\n:-1\r\n:0\r\n", bob, -1, nil},
		{"marked before", inspected("!own 7\n\n"+driver.FormatBreach(bob), 5000, 0), "*3\r\n:1\r\n:4000\r\n:0\r\n", bob, 4001 * time.Millisecond, nil},
		{"ended at once", inspected("own 7", 5000, 0), withBreach(3, "7"), now, 0, nil},
		{"over meanwhile", inspected("own 7", 5000, 0), gone, bob, 0, locker.ErrNotHolder},
		{"held by another lease", inspected("own 8", 5000, 0), silence, bob, 0, locker.ErrNotHolder},
		{"free", inspected("", -2, 0), silence, bob, 0, locker.ErrNotHolder},
		{"looking is denied", denied, denied, bob, 0, locker.ErrNoBreaker},
		{"breaking is denied", inspected("own 7", 5000, 0), denied, bob, 0, locker.ErrNoBreaker},
	} {
		t.Run(c.what, func(t *testing.T) {
			effect, sent, err := breakA(t, newFake(t), c.b, c.look, c.answer)
			if want := (locker.Effect{Within: c.within}); effect != want || !errors.Is(err, c.err) {
				t.Errorf("Break = %+v, %v, want %+v, %v", effect, err, want, c.err)
			}
			if errors.Is(c.err, locker.ErrNoBreaker) && !strings.Contains(err.Error(), "docs/redis.md") {
				t.Errorf("Break = %v, want what is missing", err)
			}
			if err != nil && strings.Count(err.Error(), "a permission is missing") > 1 {
				t.Errorf("Break = %v, want that it is explained once", err)
			}
			mode := ""
			if c.b.AtOnce {
				mode = "now"
			}
			if c.answer == silence || errors.Is(c.err, locker.ErrNoBreaker) {
				return
			}
			if want := []string{"own", "60000", "7", mode, driver.FormatBreach(c.b)}; !slices.Equal(sent[5:len(sent)-1], want) || sent[4] != "locker:{a}:tomb:own" {
				t.Errorf("sent was %q, want the holder's tombstone, and %q", sent, want)
			}
		})
	}
}

// A copy of the request whose answer was lost has ended the lease, or has marked it, and its holder has
// released the lock. So the next copy doesn't find it. That is no ErrNotHolder, which says that nothing
// has changed.
func TestBreakThatIsRepeated(t *testing.T) {
	for _, atOnce := range []bool{true, false} {
		b := bob
		b.AtOnce = atOnce
		if effect, _, err := breakA(t, newFake(t), b, inspected("own 7", 5000, 0), hangUp, gone); effect != (locker.Effect{}) || err != nil {
			t.Errorf("Break (at once: %v) whose first answer was lost = %+v, %v, want nil: the lock is free", atOnce, effect, err)
		}
	}
}

// What is marked still exists, and must be released. What has been ended is gone.
func TestHolderLearnsOfABreak(t *testing.T) {
	for _, c := range []struct {
		what    string
		outcome int
		text    string
		want    locker.Breach
		sent    []string
	}{
		{"marked", 4, driver.FormatBreach(bob), bob, []string{"release"}},
		{"marked with what can't be read", 4, "by hand", locker.Breach{Reason: "by hand"}, []string{"release"}},
		{"ended", 0, driver.FormatBreach(bob), bob, nil},
	} {
		for _, acquiring := range []bool{false, true} {
			t.Run(fmt.Sprint(c.what, acquiring), func(t *testing.T) {
				f := newFake(t)
				d := f.driver(t, nil)
				var err, lost error
				l, refused := d.Lock(locker.Request{Name: "a", TTL: time.Minute}, func(cause error) { lost = cause })
				if refused != nil {
					t.Fatal(refused)
				}
				if acquiring { // a copy of the request was executed before
					f.answers(withBreach(c.outcome, c.text))
					if _, err = l.Acquire(t.Context()); lost == nil || lost != err { //nolint:errorlint // the same one
						t.Errorf("lost was called with %v, want %v", lost, err)
					}
				} else {
					f.answers(granted, withBreach(c.outcome, c.text))
					if _, err := l.Acquire(t.Context()); err != nil {
						t.Fatal(err)
					}
					d.Renew(t.Context(), []driver.Lock{l}, func(_ int, _ driver.Instant, e error) { err = e })
				}
				var found *locker.Breach
				if !errors.As(err, &found) || *found != c.want || locker.LossOf(err) != "broken" || !errors.Is(err, locker.ErrLost) {
					t.Errorf("the error is %v, want %+v", err, c.want)
				}
				f.answers(gone)
				if err := l.Release(t.Context()); err != nil || !slices.Equal(f.called(), c.sent) {
					t.Errorf("Release = %v, and sent %q, want %q", err, f.called(), c.sent)
				}
			})
		}
	}
}

// What was granted on the server, and taken away before the answer came, is no lease of the caller's. It
// goes on waiting, and a caller that doesn't wait isn't told that it has lost a lease.
func TestAcquireThatIsTakenAway(t *testing.T) {
	f := newFake(t)
	acquireThatIsTakenAway(t, f, f.driver(t, nil), withBreach(4, driver.FormatBreach(bob)))
	f = newFake(t)
	acquireThatIsTakenAway(t, f, f.clusterDriver(t), gone) // at once; there the tombstone doesn't say by whom
}

func acquireThatIsTakenAway(t *testing.T, f *fake, d driver.Driver, answer string) {
	t.Helper()
	l := driver.New(d, driver.Config{TTL: time.Minute})
	var taken atomic.Bool
	f.does(func(command []string) string {
		switch {
		case !strings.HasPrefix(describe(command), "acquire"):
			return gone
		case taken.CompareAndSwap(false, true):
			return answer
		}
		return granted
	})
	if lease, err := locker.TryAcquire(t.Context(), l, "a"); err == nil || errors.Is(err, locker.ErrLost) || errors.Is(err, locker.ErrBroken) {
		t.Errorf("TryAcquire = %v, %v, want an error of no lease", lease, err)
	}
	taken.Store(false)
	lease, err := l.Acquire(t.Context(), "a")
	if err != nil || lease.Token() != 42 {
		t.Fatalf("Acquire = %v, %v, want the next grant", lease, err)
	}
	if err := lease.Release(t.Context()); err != nil {
		t.Errorf("Release = %v", err)
	}
}

func TestInspectShowsABreak(t *testing.T) {
	f := newFake(t)
	d := f.driver(t, nil)
	for value, want := range map[string]locker.Party{
		"!own 7\nweb\n" + driver.FormatBreach(bob): {Owner: "own", Token: 7, Holder: "web", Broken: &bob},
		"!own 7\n\n" + driver.FormatBreach(bob):    {Owner: "own", Token: 7, Broken: &bob},
		"!own 7":                                   {Owner: "own", Token: 7, Broken: &locker.Breach{}},
		"!own":                                     {},
	} {
		f.answers(inspected(value, 5000, 0))
		got := inspectA(t, d).Holder
		if got.Owner != want.Owner || got.Token != want.Token || got.Holder != want.Holder || (got.Broken == nil) != (want.Broken == nil) ||
			got.Broken != nil && *got.Broken != *want.Broken {
			t.Errorf("%q is shown as %+v, want %+v", value, got, want)
		}
	}
}
