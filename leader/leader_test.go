package leader_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/leader"
	"github.com/fencedlock/locker/membackend"
)

// The lock passes on when the function that leads has returned, and not when its leader has resigned.
func TestResign(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := membackend.NewServer()
		b := new(book)
		first, second := make(chan leader.Term, 9), make(chan leader.Term, 9)
		const cleanUp = 3 * time.Second
		start(t, newSite(t, s), func(ctx context.Context, term leader.Term) error {
			first <- term
			<-ctx.Done()
			if lease, ok := locker.LeaseFrom(ctx); !ok || lease != term.Lease || lease.Err() != nil {
				t.Errorf("the lease of the context is %v, %v, want the term's, which is held", lease, ok)
			}
			time.Sleep(cleanUp)
			return nil
		}, leader.WithObserver(b))
		start(t, newSite(t, s), lead(second))
		a := <-first
		began := time.Now()
		for range 2 {
			a.Resign()
		}
		leader.Term{}.Resign()
		next := <-second
		if since(began) != cleanUp || next.Number <= a.Number || !next.Since.Equal(time.Now()) {
			t.Errorf("the next term is %+v after %v, want it after %v with a number above %v", next, since(began), cleanUp, a.Number)
		}
		if got := b.take(); !slices.Equal(got, []string{"standing", "elected", "ended", "standing"}) || b.lastCause() != nil {
			t.Errorf("the observer was told %v, %v", got, b.lastCause())
		}
	})
}

// A leader that is cut off stops before anybody else is elected, and its next term begins when the
// others' is over.
func TestLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := membackend.NewServer()
		b := new(book)
		ended := make(chan time.Time, 1)
		home, second := newSite(t, s), make(chan leader.Term, 1)
		var terms []leader.Term
		start(t, home, func(ctx context.Context, term leader.Term) error {
			terms = append(terms, term)
			<-ctx.Done()
			if !errors.Is(context.Cause(ctx), locker.ErrLost) {
				t.Errorf("the cause is %v, want ErrLost", context.Cause(ctx))
			}
			ended <- time.Now()
			return errService
		}, leader.WithObserver(b))
		start(t, newSite(t, s), lead(second))
		began := time.Now()
		home.link.Cut()
		at := <-ended
		if at.Sub(began) != validity {
			t.Errorf("the context ended after %v, want %v", at.Sub(began), validity)
		}
		next := <-second
		if since(began) != ttl || next.Number <= terms[0].Number {
			t.Errorf("the next leader came after %v, want %v", since(began), ttl)
		}
		home.link.Heal()
		time.Sleep(time.Minute)
		if len(terms) != 1 {
			t.Fatalf("%d terms, and another leads", len(terms))
		}
		if !errors.Is(b.lastCause(), locker.ErrLost) {
			t.Errorf("the cause that the observer was told is %v", b.lastCause())
		}
		next.Resign()
		synctest.Wait()
		if len(terms) != 2 || terms[1].Number <= next.Number {
			t.Errorf("terms %+v, want a second one", terms)
		}
		s.Expire(office)
		<-ended
	})
}

// A function that ignores its context keeps its process from leading again, and nobody else.
func TestOverstay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := membackend.NewServer()
		b := new(book)
		gate, second := make(chan struct{}), make(chan leader.Term, 1)
		terms := 0
		var calls []time.Duration
		began := time.Now()
		start(t, newSite(t, s), func(context.Context, leader.Term) error {
			terms++
			<-gate
			return nil
		}, leader.WithObserver(b), leader.WithOverstay(5*time.Second, func() { calls = append(calls, since(began)) }))
		start(t, newSite(t, s), lead(second))
		time.Sleep(time.Minute)
		s.Expire(office)
		next := <-second
		if since(began) != time.Minute {
			t.Errorf("another leads after %v, want at once", since(began))
		}
		time.Sleep(10 * time.Minute)
		next.Resign()
		time.Sleep(10 * time.Minute)
		if terms != 1 {
			t.Errorf("%d terms, and the first hasn't ended", terms)
		}
		if !slices.Equal(calls, []time.Duration{time.Minute + 5*time.Second}) {
			t.Errorf("Overstay was called after %v", calls)
		}
		if got := b.take(); !slices.Equal(got, []string{"standing", "elected", "overstaying"}) {
			t.Errorf("the observer was told %v", got)
		}
		close(gate)
		time.Sleep(time.Minute)
		if got := b.take(); got[0] != "ended" || !errors.Is(b.lastCause(), locker.ErrLost) {
			t.Errorf("the observer was told %v", got)
		}
	})
}

// A function that has returned is not reported, however short the limit is.
//
// It runs in real time: in a bubble, timers of 0 on several goroutines crash the race detector (golang/go#78156).
func TestNoOverstayOfATermThatEnds(t *testing.T) {
	terms := 0
	err := leader.Run(t.Context(), newSite(t, membackend.NewServer()), office, func(context.Context, leader.Term) error {
		if terms++; terms == 1000 {
			return leader.ErrStop
		}
		return nil
	}, leader.WithRest(0), leader.WithOverstay(0, func() { t.Error("Overstay was called") }))
	if !errors.Is(err, leader.ErrStop) {
		t.Errorf("Run = %v", err)
	}
}

// A term that overstays is reported before its end, or not at all, also if both happen at the same time.
func TestOverstayComesBeforeTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, n := new(book), 0
		err := leader.Run(t.Context(), newSite(t, membackend.NewServer()), office, func(ctx context.Context, term leader.Term) error {
			term.Resign()
			<-ctx.Done()
			time.Sleep(5 * time.Second)
			if n++; n == 200 {
				return leader.ErrStop
			}
			return nil
		}, leader.WithRest(0), leader.WithObserver(b), leader.WithOverstay(5*time.Second, func() {}))
		if !errors.Is(err, leader.ErrStop) {
			t.Fatalf("Run = %v", err)
		}
		last := ""
		for i, line := range b.take() {
			if line == "overstaying" && last != "elected" {
				t.Fatalf("notice %d: overstaying after %q", i, last)
			}
			last = line
		}
	})
}

// A function that returns in time is not reported.
func TestNoOverstay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, terms := membackend.NewServer(), make(chan leader.Term, 1)
		start(t, newSite(t, s), func(ctx context.Context, term leader.Term) error {
			terms <- term
			<-ctx.Done()
			time.Sleep(5*time.Second - 1)
			return nil
		}, leader.WithOverstay(5*time.Second, func() { t.Error("Overstay was called") }))
		(<-terms).Resign()
		(<-terms).Resign()
		time.Sleep(time.Minute)
	})
}

// A service that is down is asked now and then, and a leader is elected soon after.
func TestServiceDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, terms := membackend.NewServer(), make(chan leader.Term, 1)
		home := newSite(t, s)
		s.Fail(errService)
		start(t, home, lead(terms))
		time.Sleep(10 * time.Minute)
		stats, _ := locker.StatsOf(home.Locker)
		if n := stats.Refused["error"]; n < 60 || n > 130 {
			t.Errorf("%d acquisitions in 10 minutes, want about one in 10 s", n)
		}
		s.Fail(nil)
		began := time.Now()
		<-terms
		if since(began) > 10*time.Second {
			t.Errorf("elected after %v", since(began))
		}
	})
}

// A TTL for which the locker has no session left doesn't end a candidacy.
func TestRefusalThatPasses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		terms := make(chan leader.Term, 1)
		start(t, &busyOnce{Locker: newSite(t, membackend.NewServer())}, lead(terms))
		<-terms
	})
}

// busyOnce refuses the first acquisition.
type busyOnce struct {
	locker.Locker
	asked bool
}

func (b *busyOnce) Acquire(ctx context.Context, name string, opts ...locker.Option) (locker.Lease, error) {
	if !b.asked {
		b.asked = true
		return nil, &locker.Error{Op: "acquire", Name: name, Err: locker.ErrTooManyTTLs}
	}
	return b.Locker.Acquire(ctx, name, opts...)
}

// The end of ctx ends the term, and Run waits for the function.
func TestEndOfContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := membackend.NewServer()
		var cause error
		r := start(t, newSite(t, s), func(ctx context.Context, _ leader.Term) error {
			<-ctx.Done()
			cause = context.Cause(ctx)
			time.Sleep(time.Second)
			return errService
		})
		waiter := start(t, newSite(t, s), lead(make(chan leader.Term, 1)))
		waiter.cancel()
		<-waiter.done
		began := time.Now()
		r.cancel()
		<-r.done
		if !errors.Is(r.err, context.Canceled) || !errors.Is(waiter.err, context.Canceled) || since(began) != time.Second || !errors.Is(cause, context.Canceled) {
			t.Errorf("Run = %v, %v after %v, cause %v", r.err, waiter.err, since(began), cause)
		}
		if left := s.Residue(); left != "" {
			t.Errorf("left: %s", left)
		}
	})
}

// A function that returns resigns, and rests; with ErrStop it is the end.
func TestReturn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := membackend.NewServer()
		var at []time.Time
		stop := errors.Join(errors.New("enough"), leader.ErrStop)
		r := start(t, newSite(t, s), func(ctx context.Context, term leader.Term) error {
			switch at = append(at, time.Now()); len(at) {
			case 4:
				return stop
			case 3:
				return errService
			}
			return nil
		})
		<-r.done
		if !errors.Is(r.err, stop) || s.Residue() != "" {
			t.Errorf("Run = %v, left: %s", r.err, s.Residue())
		}
		for i := range at[1:] {
			if rest := at[i+1].Sub(at[i]); rest < time.Second/2 || rest > 3*time.Second/2 {
				t.Errorf("a rest of %v, want 1s ± half", rest)
			}
		}
	})
}

func TestRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, began := 0, time.Now()
		r := start(t, newSite(t, membackend.NewServer()), func(context.Context, leader.Term) error {
			if n++; n == 1000 {
				return leader.ErrStop
			}
			return nil
		}, leader.WithRest(0))
		<-r.done
		if since(began) != 0 {
			t.Errorf("1000 terms without a rest took %v", since(began))
		}
	})
}

// Terms that are lost at once don't make Run spin.
func TestLossesInARow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := membackend.NewServer()
		var n atomic.Int64
		start(t, newSite(t, s), func(ctx context.Context, _ leader.Term) error {
			n.Add(1)
			s.Expire(office)
			<-ctx.Done()
			return nil
		}, leader.WithBackoff(time.Second, 4*time.Second))
		time.Sleep(time.Minute)
		if n := n.Load(); n < 15 || n > 32 {
			t.Errorf("%d terms in a minute", n)
		}
	})
}

func TestPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, b := membackend.NewServer(), new(book)
		home := newSite(t, s)
		func() {
			defer func() {
				if p, _ := recover().(error); !errors.Is(p, errService) {
					t.Errorf("the panic is %v", p)
				}
			}()
			_ = leader.Run(t.Context(), home, office, func(context.Context, leader.Term) error { panic(errService) }, leader.WithObserver(b))
		}()
		if left := s.Residue(); left != "" {
			t.Errorf("left: %s", left)
		}
		if got := b.take(); !slices.Equal(got, []string{"standing", "elected", "ended"}) {
			t.Errorf("the observer was told %v", got)
		}
	})
}

// Bad arguments, and a locker that is closed, are no reason to wait.
func TestErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := membackend.NewServer()
		home := newSite(t, s)
		nothing := func(context.Context, leader.Term) error { return nil }
		for what, opt := range map[string]leader.Option{
			"TTL": leader.WithTTL(0), "identity": leader.WithIdentity("\n"), "rest": leader.WithRest(-1), "back-off of 0": leader.WithBackoff(0, 1),
			"back-off that shrinks": leader.WithBackoff(2, 1), "overstay": leader.WithOverstay(-1, func() {}), "overstay without a function": leader.WithOverstay(1, nil),
			"observer": leader.WithObserver(nil),
		} {
			if err := leader.Run(t.Context(), home, office, nothing, opt, leader.WithRest(1)); !errors.Is(err, locker.ErrOption) {
				t.Errorf("%s: Run = %v, want ErrOption", what, err)
			}
			if c, err := leader.Stand(home, office, opt); c != nil || !errors.Is(err, locker.ErrOption) {
				t.Errorf("%s: Stand = %v, %v, want ErrOption", what, c, err)
			}
		}
		if c, err := leader.Stand(home, ""); c != nil || !errors.Is(err, locker.ErrName) {
			t.Errorf("Stand without a name = %v, %v", c, err)
		}
		if err := leader.Run(t.Context(), home, "", nothing); !errors.Is(err, locker.ErrName) {
			t.Errorf("Run without a name = %v", err)
		}
		if err := leader.Run(t.Context(), home, office, nil); !errors.Is(err, locker.ErrOption) {
			t.Errorf("Run without a function = %v", err)
		}
		if n := s.Requests(); n != 0 {
			t.Errorf("%d requests", n)
		}
		if err := leader.Run(t.Context(), home, office, nothing, leader.WithTTL(time.Millisecond)); !errors.Is(err, locker.ErrOption) {
			t.Errorf("Run with a TTL that the backend refuses = %v", err)
		}
		r := start(t, home, func(ctx context.Context, _ leader.Term) error {
			if err := leader.Run(ctx, home, office, nothing); !errors.Is(err, locker.ErrHeldByCaller) {
				t.Errorf("Run below itself = %v", err)
			}
			<-ctx.Done()
			return nil
		})
		_ = home.Close()
		<-r.done
		if !errors.Is(r.err, locker.ErrClosed) {
			t.Errorf("Run = %v, want ErrClosed", r.err)
		}
	})
}
