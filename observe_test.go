package locker_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/fencedlock/locker"
)

// observableLocker gives its observer the events that a test makes.
type observableLocker struct {
	fakeLocker
	observer locker.Observer
	kinds    locker.EventKind
	stopped  int
	leases   []locker.LeaseInfo
}

func (o *observableLocker) Observe(obs locker.Observer, kinds locker.EventKind) (stop func(), err error) {
	o.observer, o.kinds = obs, kinds
	return func() { o.stopped++ }, nil
}

func (o *observableLocker) Stats() (locker.Stats, bool)        { return locker.Stats{Held: 7}, true }
func (o *observableLocker) Leases() ([]locker.LeaseInfo, bool) { return slices.Clone(o.leases), true }

// events is an observer.
type events struct{ got []locker.Event }

func (e *events) Observe(_ context.Context, ev locker.Event) { e.got = append(e.got, ev) }

// spans is a tracer.
type spans struct {
	events
	begun []string
}

type spanKey struct{}

func (s *spans) Begin(ctx context.Context, r locker.Request) context.Context {
	s.begun = append(s.begun, r.Name)
	return context.WithValue(ctx, spanKey{}, r.Name)
}

func TestObserveUnderATokenBase(t *testing.T) {
	inner := &observableLocker{leases: []locker.LeaseInfo{{Token: 3}, {}}}
	l, err := locker.TokenBase(inner, 1000)
	if err != nil {
		t.Fatal(err)
	}
	plain, tracing := new(events), new(spans)
	for _, o := range []locker.Observer{plain, tracing} {
		stop, err := locker.Observe(l, o, locker.EventGranted|locker.EventRefused)
		if err != nil || inner.kinds != locker.EventGranted|locker.EventRefused {
			t.Fatalf("Observe = %v, with the kinds %v", err, inner.kinds)
		}
		inner.observer.Observe(t.Context(), locker.Event{Token: 5, ID: 1})
		inner.observer.Observe(t.Context(), locker.Event{ID: 2}) // no token doesn't become one
		if tr, ok := inner.observer.(locker.Tracer); ok {
			if ctx := tr.Begin(t.Context(), locker.Request{Name: "name"}); ctx.Value(spanKey{}) != "name" {
				t.Error("the context of Begin is lost")
			}
		}
		stop()
	}
	want := []locker.Event{{Token: 1005, ID: 1}, {ID: 2}}
	if !slices.Equal(plain.got, want) || !slices.Equal(tracing.got, want) {
		t.Errorf("the events are %+v and %+v, want %+v", plain.got, tracing.got, want)
	}
	if len(tracing.begun) != 1 || inner.stopped != 2 {
		t.Errorf("%d calls of Begin, %d of stop; want 1 and 2", len(tracing.begun), inner.stopped)
	}
	if list, ok := locker.Leases(l); !ok || list[0].Token != 1003 || list[1].Token != 0 {
		t.Errorf("Leases = %+v, %v", list, ok)
	}
	if s, ok := locker.StatsOf(l); !ok || s.Held != 7 {
		t.Errorf("StatsOf = %+v, %v", s, ok)
	}
	if _, err := locker.Observe(observer{l}, plain, 0); err != nil {
		t.Errorf("Observe through a decorator that only observes = %v", err)
	}
}

func TestObserveWithoutAnObserver(t *testing.T) {
	_, err := locker.Observe(&observableLocker{}, nil, 0)
	if e := new(locker.Error); !errors.Is(err, locker.ErrOption) || !errors.As(err, &e) || e.Op != "observe" {
		t.Errorf("Observe = %v, want ErrOption of the operation observe", err)
	}
}

func TestObserveWhereNobodyTells(t *testing.T) {
	based, err := locker.TokenBase(&fakeLocker{}, 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range []locker.Locker{&fakeLocker{}, based} {
		_, err := locker.Observe(l, new(events), 0)
		if e := new(locker.Error); !errors.Is(err, errors.ErrUnsupported) || !errors.As(err, &e) || e.Op != "observe" {
			t.Errorf("Observe = %v, want ErrUnsupported of the operation observe", err)
		}
		if _, ok := locker.StatsOf(l); ok {
			t.Error("StatsOf says that it knows")
		}
		if _, ok := locker.Leases(l); ok {
			t.Error("Leases says that it knows")
		}
	}
}

func TestOutcome(t *testing.T) {
	cause := errors.New("cause")
	for _, tc := range []struct {
		want string
		err  error
	}{
		{"granted", nil},
		{"held", locker.ErrHeld},
		{"timeout", errors.Join(locker.ErrHeld, context.DeadlineExceeded, cause)},
		{"error", context.DeadlineExceeded}, // nobody has said that the lock is held
		{"error", os.ErrDeadlineExceeded},
		{"canceled", errors.Join(context.Canceled, cause)},
		{"closed", locker.ErrClosed},
		{"invalid", locker.ErrName},
		{"invalid", locker.ErrOption},
		{"invalid", locker.ErrHeldByCaller},
		{"invalid", errors.ErrUnsupported},
		{"error", locker.ErrNoAnswer},
		{"error", locker.ErrTooManyTTLs}, // it passes
		{"error", cause},
	} {
		err := tc.err
		if err != nil {
			err = &locker.Error{Op: "acquire", Err: err}
		}
		if got := locker.OutcomeOf(err); got != tc.want {
			t.Errorf("OutcomeOf(%v) = %q, want %q", err, got, tc.want)
		}
	}
}

// A program that waits, or asks again later, when it sees one of these, must not do so for a mistake of its own; and a
// program that ends because of a mistake must not end because of what passes.
func TestWhatPassesIsNoMistake(t *testing.T) {
	mistakes := []error{locker.ErrHeldByCaller, locker.ErrOption, locker.ErrName, locker.ErrGuarantee, errors.ErrUnsupported}
	passes := []error{locker.ErrHeld, locker.ErrNoAnswer, locker.ErrUnconfirmed, locker.ErrTooManyTTLs, locker.ErrLost}
	for _, mistake := range mistakes {
		for _, other := range passes {
			if errors.Is(mistake, other) || errors.Is(other, mistake) {
				t.Errorf("%q and %q match", mistake, other)
			}
		}
	}
}

func TestLossOfWhatIsNoLoss(t *testing.T) {
	for _, err := range []error{nil, locker.ErrReleased, locker.ErrMaxHold, errors.New("cause")} {
		if got := locker.LossOf(err); got != "" {
			t.Errorf("LossOf(%v) = %q", err, got)
		}
	}
	if got := locker.LossOf(lost("somebody's own locker")); got != "revoked" {
		t.Errorf("LossOf = %q, want revoked, the loss without a reason", got)
	}
}

func TestEventKindString(t *testing.T) {
	for kinds, want := range map[locker.EventKind]string{
		locker.EventWaiting:                                 "waiting",
		locker.EventClosed:                                  "closed",
		locker.EventLost | locker.EventGranted:              "granted, lost",
		locker.EventRenewalFailed | locker.EventKind(1<<20): "renewal failed, kinds 0x100000",
		0: "",
	} {
		if got := fmt.Sprint(kinds); got != want {
			t.Errorf("String = %q, want %q", got, want)
		}
	}
}
