package driver_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
)

// breaker is a driver that does with each call of Break what a test wants.
type breaker struct {
	mute
	expiry locker.Expiry
	do     func(ctx context.Context, name string, token locker.Token, b locker.Breach) (locker.Effect, error)
}

func (d breaker) Guarantees() locker.Guarantees { return locker.Guarantees{Expiry: d.expiry} }
func (d breaker) Break(ctx context.Context, name string, token locker.Token, b locker.Breach) (locker.Effect, error) {
	return d.do(ctx, name, token, b)
}

var someBreach = locker.Breach{By: "bob@ops-1", Reason: "hangs", At: time.UnixMilli(1).UTC()}

func TestBreakAsksTheDriver(t *testing.T) {
	var asked string
	answer, failure := locker.Effect{Others: 2, Within: time.Second}, error(nil)
	l := driver.New(breaker{
		expiry: locker.Expiry{Slack: time.Minute},
		do: func(ctx context.Context, name string, token locker.Token, b locker.Breach) (locker.Effect, error) {
			_, bounded := ctx.Deadline()
			asked = fmt.Sprint(name, " ", token, " ", b, " ", bounded)
			return answer, failure
		},
	}, driver.Config{})
	defer l.Close()
	got, err := locker.Break(t.Context(), l, "a", 7, someBreach)
	if want := (locker.Effect{Others: 2, Within: time.Minute + time.Second}); got != want || err != nil {
		t.Errorf("Break = %+v, %v, want %+v", got, err, want)
	}
	if want := fmt.Sprint("a 7 ", someBreach, " true"); asked != want {
		t.Errorf("the driver was asked for %s, want %s", asked, want)
	}
	for _, within := range []time.Duration{0, -1} { // free now, and no time is known: there is no slack
		answer.Within = within
		if got, err := locker.Break(t.Context(), l, "a", 7, locker.Breach{}); got.Within != within || err != nil {
			t.Errorf("Break = %+v, %v, want %d", got, err, within)
		}
	}
	if !strings.Contains(asked, locker.DefaultHolder()) {
		t.Errorf("the driver was asked for %s, want who breaks", asked)
	}
	failure = fmt.Errorf("script: %w", locker.ErrNotHolder)
	got, err = locker.Break(t.Context(), l, "a", 7, someBreach)
	var e *locker.Error
	if got != (locker.Effect{}) || !errors.Is(err, failure) || !errors.Is(err, locker.ErrNotHolder) || !errors.As(err, &e) || e.Op != "break" || e.Name != "a" {
		t.Errorf("Break = %+v, %v, want the driver's error, and what was tried", got, err)
	}
	failure = fmt.Errorf("%w: others would end", locker.ErrOption)
	if got, err := locker.Break(t.Context(), l, "a", 7, someBreach); got != (locker.Effect{Others: 2}) || !errors.Is(err, failure) {
		t.Errorf("Break = %+v, %v, want how many others would end, and no time", got, err)
	}
}

func TestBreakRefusesWithoutACall(t *testing.T) {
	l := driver.New(breaker{do: func(context.Context, string, locker.Token, locker.Breach) (locker.Effect, error) {
		t.Error("the driver is called")
		return locker.Effect{}, nil
	}}, driver.Config{})
	try := func(ctx context.Context, name string, token locker.Token, b locker.Breach) error {
		_, err := locker.Break(ctx, l, name, token, b)
		return err
	}
	matches(t, "Break of no name", try(t.Context(), "", 1, someBreach), locker.ErrName)
	matches(t, "Break without a token", try(t.Context(), "a", 0, someBreach), locker.ErrOption)
	matches(t, "Break with a bad text", try(t.Context(), "a", 1, locker.Breach{By: "\n"}), locker.ErrOption)
	slot := someBreach
	slot.Slot = 3
	err := try(t.Context(), "a", 1, slot)
	matches(t, "Break of a slot without permits", err, errors.ErrUnsupported)
	if !strings.Contains(err.Error(), "permits") {
		t.Errorf("Break of a slot = %v, want what isn't supported", err)
	}
	cause := errors.New("nobody wants it any more")
	over, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	matches(t, "Break with a context that is over", try(over, "a", 1, someBreach), context.Canceled, cause)
	_ = l.Close()
	matches(t, "Break of a Locker that is closed", try(t.Context(), "a", 1, someBreach), locker.ErrClosed)

	unable := driver.New(mute{}, driver.Config{})
	defer unable.Close()
	_, err = locker.Break(t.Context(), unable, "a", 1, someBreach)
	matches(t, "Break where the driver can't", err, locker.ErrNoBreaker)
}

func TestBreakOfASilentService(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := driver.New(breaker{do: func(ctx context.Context, _ string, _ locker.Token, _ locker.Breach) (locker.Effect, error) {
			<-ctx.Done()
			return locker.Effect{}, ctx.Err()
		}}, driver.Config{})
		defer l.Close()
		began := time.Now()
		_, err := locker.Break(t.Context(), l, "a", 7, someBreach)
		if took := time.Since(began); err == nil || errors.Is(err, context.DeadlineExceeded) || took != 5*time.Second {
			t.Errorf("Break of a silent service = %v after %v, want an error that isn't the caller's after 5 s", err, took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = locker.Break(ctx, l, "a", 7, someBreach)
		matches(t, "Break of a caller that waits for a second", err, context.DeadlineExceeded)
	})
}

// wantBroken checks the end of a lease that was taken away, and what the Locker says of it.
func wantBroken(t *testing.T, l locker.Locker, lease locker.Lease, w *watcher) {
	t.Helper()
	select {
	case <-lease.Done():
	default:
		t.Fatal("Done is open")
	}
	synctest.Wait()
	for what, err := range map[string]error{"Err": lease.Err(), "Release": lease.Release(t.Context()), "Renew": lease.Renew(t.Context()), "the event": lostCause(w)} {
		matches(t, what, err, locker.ErrLost, locker.ErrBroken)
		var b *locker.Breach
		if !errors.As(err, &b) || *b != someBreach || locker.LossOf(err) != "broken" {
			t.Errorf("%s = %v, LossOf = %q, want %+v", what, err, locker.LossOf(err), someBreach)
		}
		if n := strings.Count(err.Error(), locker.ErrLost.Error()); n != 1 {
			t.Errorf("%s = %q, want it to say once that the lock is lost", what, err)
		}
	}
	if s := statsOf(t, l); s.Lost["broken"] != 1 || len(s.Lost) != 1 {
		t.Errorf("Stats = %+v", s)
	}
}

func lostCause(w *watcher) (cause error) {
	for _, e := range w.take() {
		if e.Kind == locker.EventLost {
			cause = e.Cause
		}
	}
	return cause
}

func TestALeaseThatIsTakenAwayByAPush(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := &fake{}
		l := open(t, f)
		w := watch(t, l)
		lease := mustAcquire(t, l, "name")
		f.tell(0, driver.Broken(someBreach))
		wantBroken(t, l, lease, w)
		if !f.lock(0).isRemoved() {
			t.Error("it was not released")
		}
	})
}

func TestALeaseThatIsTakenAwayAtItsRenewal(t *testing.T) {
	for _, byHand := range []bool{false, true} {
		bubble(t, func(t *testing.T) {
			f := &fake{renew: func(context.Context, *fakeLock) (driver.Instant, error) { return 0, driver.Broken(someBreach) }}
			l := open(t, f)
			w := watch(t, l)
			lease := mustAcquire(t, l, "name")
			if byHand {
				matches(t, "Renew", lease.Renew(callerContext(t)), locker.ErrBroken)
			} else {
				time.Sleep(ttl/3 + time.Millisecond)
			}
			wantBroken(t, l, lease, w)
			if !f.lock(0).isRemoved() {
				t.Error("it was not released")
			}
		})
	}
}

// What is granted on the service, and taken away before the caller has it, is no lease of the
// caller's, who goes on waiting.
func TestAGrantThatIsTakenAwayBeforeItIsHandedOut(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := &fake{}
		f.acquire = func(_ context.Context, l *fakeLock) (driver.Grant, error) {
			if l.n == 0 {
				l.lost(driver.Broken(someBreach))
			}
			return grant(l), nil
		}
		lease := mustAcquire(t, open(t, f), "name")
		if lease.Token() != 2 || lease.Err() != nil || !f.lock(0).isRemoved() {
			t.Errorf("the lease has token %v, and Err = %v", lease.Token(), lease.Err())
		}
	})
}

// An error of the service may contain the end of another lease, as the cause of a context. That
// isn't how this lease has ended.
func TestABreachOfAnotherLease(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := &fake{}
		l := open(t, f)
		lease := mustAcquire(t, l, "name")
		f.tell(0, fmt.Errorf("dial: %w", driver.Broken(someBreach)))
		if got := locker.LossOf(lease.Err()); got != "revoked" {
			t.Errorf("LossOf = %q, want revoked", got)
		}
	})
}
