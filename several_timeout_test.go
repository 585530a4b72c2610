package locker_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/membackend"
)

// A wait that runs out of time is one for permits that are held, whatever is under way at that moment.
func TestPermitTimeOut(t *testing.T) {
	bubble(t, func(t *testing.T, s *membackend.Server) {
		const n = 2 * queuesOfTheFirst
		l, other := openSlow(t, s), openMem(t, s)
		_, held := withPermits(t, other, n, n)
		acquire := func(ctx context.Context) error {
			_, err := locker.AcquirePermit(ctx, l, "job", n)
			return err
		}
		wantTimeOuts(t, acquire)
		ctx, cancel := context.WithCancel(t.Context())
		first := startPermit(ctx, openMem(t, s), n)
		synctest.Wait()
		wantTimeOuts(t, acquire) // also of the second in the line
		cancel()
		<-first
		release(t, held...)
	})
}

func openSlow(t *testing.T, s *membackend.Server) locker.Locker {
	t.Helper()
	link := membackend.NewLink()
	link.Delay(slowRequest, slowReply)
	return openMem(t, s, membackend.WithLink(link))
}

const (
	slowRequest = 30 * time.Millisecond
	slowReply   = 20 * time.Millisecond
)

// wantTimeOuts calls acquire with the time limits from the first answer on.
func wantTimeOuts(t *testing.T, acquire func(context.Context) error) {
	t.Helper()
	errOver := errors.New("it took too long")
	for wait := slowRequest + slowReply + time.Millisecond; wait < 1500*time.Millisecond; wait += 7 * time.Millisecond {
		ctx, cancel := context.WithTimeoutCause(t.Context(), wait, errOver)
		err := acquire(ctx)
		cancel()
		wantErr(t, wait.String(), err, "job", locker.ErrHeld, context.DeadlineExceeded, errOver)
		if outcome := locker.OutcomeOf(err); outcome != locker.OutcomeTimeout || errors.Is(err, locker.ErrNoAnswer) {
			t.Errorf("%v: %v is %s, want %s", wait, err, outcome, locker.OutcomeTimeout)
		}
		time.Sleep(time.Second) // requests are on their way, and what they got is removed
	}
}

// A caller whose turn in the line comes shortly before its time is up has waited for a permit that was held.
func TestPermitTimeOutAtTheHeadOfTheLine(t *testing.T) {
	bubble(t, func(t *testing.T, s *membackend.Server) {
		const n = 2 * queuesOfTheFirst
		l, other := openSlow(t, s), openMem(t, s)
		_, held := withPermits(t, other, n, n)
		firstCtx, leave := context.WithCancel(t.Context())
		first := startPermit(firstCtx, l, n)
		time.Sleep(time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		time.AfterFunc(time.Second-slowRequest-slowReply, leave)
		_, err := locker.AcquirePermit(ctx, l, "job", n) // it asks for no slot before its turn
		wantErr(t, "AcquirePermit", err, "job", locker.ErrHeld, context.DeadlineExceeded)
		<-first
		time.Sleep(time.Second) // requests are on their way
		release(t, held...)
	})
}

// A service that has taken the place in the line away, and is silent since then, doesn't say that a
// permit is held.
func TestPermitTimeOutAfterALoss(t *testing.T) {
	bubble(t, func(t *testing.T, s *membackend.Server) {
		const n = 2 * queuesOfTheFirst
		link := membackend.NewLink()
		l, other := openMem(t, s, membackend.WithLink(link)), openMem(t, s)
		_, held := withPermits(t, other, n, n)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		time.AfterFunc(1500*time.Millisecond, func() {
			link.CutRequests()
			s.Expire("job\x00line")
		})
		_, err := locker.AcquirePermit(ctx, l, "job", n)
		wantErr(t, "AcquirePermit", err, "job", locker.ErrNoAnswer, context.DeadlineExceeded)
		link.Heal()
		time.Sleep(time.Minute) // what it left behind is removed
		release(t, held...)
	})
}

// It is the same for several locks.
func TestAcquireAllTimeOut(t *testing.T) {
	bubble(t, func(t *testing.T, s *membackend.Server) {
		l, other := openSlow(t, s), openMem(t, s)
		held, err := locker.TryAcquire(t.Context(), other, "job")
		if err != nil {
			t.Fatal(err)
		}
		wantTimeOuts(t, func(ctx context.Context) error {
			_, err := locker.AcquireAll(ctx, l, locker.Wants("a", "job", "z"))
			return err
		})
		release(t, held)
	})
}

// A service that falls silent before the call has a place in a queue doesn't say that a permit is held.
func TestPermitOfASilentService(t *testing.T) {
	bubble(t, func(t *testing.T, s *membackend.Server) {
		const n = 2 * queuesOfTheFirst
		link := membackend.NewLink()
		l, other := openMem(t, s, membackend.WithLink(link)), openMem(t, s)
		_, held := withPermits(t, other, n, n)
		for wait := time.Millisecond; wait < 4*(slowRequest+slowReply); wait += 7 * time.Millisecond {
			link.Delay(slowRequest, slowReply)
			ctx, cancel := context.WithTimeout(t.Context(), wait+3*time.Second/2) // less than the time limit of a request
			time.AfterFunc(wait, link.Cut)
			_, err := locker.AcquirePermit(ctx, l, "job", n)
			cancel()
			wantErr(t, wait.String(), err, "job", locker.ErrNoAnswer, context.DeadlineExceeded)
			link.Heal()
			time.Sleep(time.Minute) // what it left behind is removed
		}
		release(t, held...)
	})
}

// Nobody has said that a lock is held if it was granted, and lost at once.
func TestAcquireAllTimeOutAfterALoss(t *testing.T) {
	bubble(t, func(t *testing.T, s *membackend.Server) {
		link := membackend.NewLink()
		l := openMem(t, s, membackend.WithLink(link))
		link.Delay(slowRequest, slowReply)
		time.AfterFunc(slowRequest+slowReply/2, func() { s.Expire("job") }) // its grant is on its way
		time.AfterFunc(slowRequest+slowReply+slowReply/2, link.Cut)
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		_, err := locker.AcquireAll(ctx, l, locker.Wants("job", "z"))
		wantErr(t, "AcquireAll", err, "job", locker.ErrNoAnswer, context.DeadlineExceeded)
		link.Heal()
		time.Sleep(time.Minute) // what it left behind is removed
	})
}

// What one service says doesn't excuse the silence of another one.
func TestAcquireInOrderOfASilentService(t *testing.T) {
	bubble(t, func(t *testing.T, s *membackend.Server) {
		link := membackend.NewLink()
		silent, live := openMem(t, membackend.NewServer(), membackend.WithLink(link)), openMem(t, s)
		link.Cut()
		held, err := locker.TryAcquire(t.Context(), openMem(t, s), "job")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 900*time.Millisecond)
		defer cancel()
		_, err = locker.AcquireInOrder(ctx, []locker.Item{{Locker: silent, Want: locker.Want{Name: "new"}}, {Locker: live, Want: locker.Want{Name: "job"}}})
		wantErr(t, "AcquireInOrder", err, "new", locker.ErrNoAnswer, context.DeadlineExceeded)
		link.Heal()
		time.Sleep(time.Minute) // what it left behind is removed
		release(t, held)
	})
}

// That others wait for permits of the same name on another service says nothing of this one.
func TestPermitsOfTwoServices(t *testing.T) {
	bubble(t, func(t *testing.T, s *membackend.Server) {
		link := membackend.NewLink()
		live, silent := openMem(t, s), openMem(t, membackend.NewServer(), membackend.WithLink(link))
		_, held := withPermits(t, live, 1, 1)
		firstCtx, leave := context.WithCancel(t.Context())
		first := startPermit(firstCtx, live, 1)
		synctest.Wait()
		link.Delay(slowRequest, slowReply)
		time.AfterFunc(slowRequest+slowReply+time.Millisecond, link.Cut)
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		lease, err := locker.AcquirePermit(ctx, silent, "job", 1)
		if err != nil {
			t.Fatalf("AcquirePermit = %v, want the permit: it asks for a slot first", err)
		}
		leave()
		<-first
		link.Heal()
		release(t, append(held, lease)...)
	})
}

// liar is an error that says of itself that it is whatever it is asked for.
type liar struct{}

func (liar) Error() string { return "liar" }
func (liar) As(any) bool   { return true }

func TestAcquireAllOfALiar(t *testing.T) {
	bubble(t, func(t *testing.T, s *membackend.Server) {
		calls := 0
		l := &disturbed{openMem(t, s), func(string) error {
			calls++
			return liar{}
		}}
		if _, err := locker.AcquireAll(t.Context(), l, locker.Wants("job")); !errors.Is(err, liar{}) || calls != 1 {
			t.Errorf("AcquireAll = %v after %d calls, want the error of the first one", err, calls)
		}
	})
}
