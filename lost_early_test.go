package locker_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/internal/verdict"
	"github.com/fencedlock/locker/membackend"
)

// losesGrants answers the first requests without waiting as the engine does when a grant is lost before it is
// handed out.
type losesGrants struct {
	locker.Locker
	left atomic.Int32
}

func (l *losesGrants) Acquire(ctx context.Context, name string, opts ...locker.Option) (locker.Lease, error) {
	if req, err := locker.Resolve(name, opts...); err == nil && req.NoWait && l.left.Add(-1) >= 0 {
		return nil, &locker.Error{Op: "acquire", Name: name, Err: &verdict.Died{Err: errors.New("lost again")}}
	}
	return l.Locker.Acquire(ctx, name, opts...)
}

func openLosing(t *testing.T, s *membackend.Server, grants int32) locker.Locker {
	t.Helper()
	l := &losesGrants{Locker: openMem(t, s)}
	l.left.Store(grants)
	return l
}

// A grant that is lost before it is handed out doesn't end a call that may wait, as with Acquire.
func TestGrantsThatAreLostEarly(t *testing.T) {
	bubble(t, func(t *testing.T, s *membackend.Server) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		leases, err := locker.AcquireAll(ctx, openLosing(t, s, 2), locker.Wants("a", "b", "c"))
		if err != nil {
			t.Fatalf("AcquireAll = %v", err)
		}
		release(t, leases.All()...)
		for _, n := range []int{1, 3} {
			permit, err := locker.AcquirePermit(ctx, openLosing(t, s, 1), "job", n)
			if err != nil {
				t.Fatalf("AcquirePermit = %v", err)
			}
			release(t, permit)
		}
		_, err = locker.TryAcquireAll(ctx, openLosing(t, s, 1), locker.Wants("a", "b"))
		if err == nil || errors.Is(err, locker.ErrHeld) || errors.Is(err, locker.ErrLost) {
			t.Errorf("TryAcquireAll = %v, want an error that doesn't match ErrHeld or ErrLost", err)
		}
	})
}

// slowName is a Locker that answers late for one name. Meanwhile another lock is lost.
type slowName struct {
	locker.Locker
	name  string
	lose  func()
	asked atomic.Int32
}

func (l *slowName) Acquire(ctx context.Context, name string, opts ...locker.Option) (locker.Lease, error) {
	if name == l.name {
		l.asked.Add(1)
		time.Sleep(time.Second)
		l.lose()
		time.Sleep(time.Second)
	}
	return l.Locker.Acquire(ctx, name, opts...)
}

// TryAcquireAll asks for each lock once, also where a lease ends before the last answer comes.
func TestTryAcquireAllOfASlowName(t *testing.T) {
	bubble(t, func(t *testing.T, s *membackend.Server) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		l := &slowName{Locker: openMem(t, s), name: "b", lose: func() { s.Expire("a") }}
		_, err := locker.TryAcquireAll(ctx, l, locker.Wants("a", "b"))
		if err == nil || errors.Is(err, locker.ErrHeld) || errors.Is(err, locker.ErrLost) || ctx.Err() != nil {
			t.Errorf("TryAcquireAll = %v, want at once an error that doesn't match ErrHeld or ErrLost", err)
		}
		if n := l.asked.Load(); n != 1 {
			t.Errorf("the slow lock was asked for %d times, want once (%v)", n, err)
		}
	})
}

// slowSlot is a Locker that says of the first slot that it is held, and answers late for another one. Neither
// counts for those that wait.
type slowSlot struct {
	locker.Locker
	asked, slow atomic.Int32
}

func (l *slowSlot) Acquire(ctx context.Context, name string, opts ...locker.Option) (locker.Lease, error) {
	req, err := locker.Resolve(name, opts...)
	if err == nil && req.NoWait {
		if l.asked.Add(1) == 1 {
			return nil, &locker.Error{Op: "acquire", Name: name, Err: locker.ErrHeld}
		}
		if req.Slot == int(l.slow.Load()) {
			time.Sleep(3 * time.Second)
		}
	}
	return l.Locker.Acquire(ctx, name, opts...)
}

var forASecond = []locker.Option{locker.WithTTL(time.Second), locker.WithoutRenewal()}

// A permit is held when it is handed out, however late the answer of another slot is. If that one is
// granted, it is the permit.
func TestTryAcquirePermitOfASlowSlot(t *testing.T) {
	const n = 9
	bubble(t, func(t *testing.T, s *membackend.Server) {
		ended := 0
		for slow := range 2 * n {
			l, other := &slowSlot{Locker: openMem(t, s)}, openMem(t, s)
			l.slow.Store(int32(slow%n + 1)) //nolint:gosec // small
			var held []locker.Lease
			if slow >= n { // the slow slot is held
				held = tryPermits(t, other, n)
				i := slices.IndexFunc(held, func(l locker.Lease) bool { return locker.Slot(l) == slow%n+1 })
				release(t, slices.Delete(slices.Clone(held), i, i+1)...)
				held = held[i : i+1]
			}
			lease, err := locker.TryAcquirePermit(t.Context(), l, "job", n, forASecond...)
			switch {
			case errors.Is(err, locker.ErrHeld), errors.Is(err, locker.ErrLost), err != nil && held == nil:
				t.Errorf("TryAcquirePermit = %v", err)
			case err != nil:
				ended++
			case lease.Err() != nil:
				t.Errorf("the permit was handed out when it had ended: %v", lease.Err())
			default:
				release(t, lease)
			}
			release(t, held...)
			time.Sleep(time.Second) // what nobody wants is given back
		}
		if ended == 0 {
			t.Error("no lease has ended before the last answer came")
		}
	})
}

// The same where the slots were waited for.
func TestAcquirePermitOfASlowSlot(t *testing.T) {
	const n = 9
	bubble(t, func(t *testing.T, s *membackend.Server) {
		for range 20 {
			l, other := &slowSlot{Locker: openMem(t, s)}, openMem(t, s)
			var free, held []locker.Lease
			for _, lease := range tryPermits(t, other, n) {
				if slot := locker.Slot(lease); slot == n {
					held = append(held, lease)
				} else {
					free = append(free, lease)
				}
			}
			l.slow.Store(n)
			got := startPermit(t.Context(), l, n, forASecond...)
			time.Sleep(500 * time.Millisecond) // it looks at the slots that it doesn't wait for
			release(t, free...)
			r := <-got
			if r.err != nil || r.lease.Err() != nil {
				t.Fatalf("AcquirePermit = %v, %v, want a permit that is held", r.lease, r.err)
			}
			release(t, append(held, r.lease)...)
			time.Sleep(time.Second) // what nobody wants is given back
		}
	})
}

// diesOnce answers the second request for a slot without waiting as if its grant had been lost.
type diesOnce struct {
	locker.Locker
	slot, asked atomic.Int32
}

func (l *diesOnce) Acquire(ctx context.Context, name string, opts ...locker.Option) (locker.Lease, error) {
	req, err := locker.Resolve(name, opts...)
	if err == nil && req.NoWait && req.Slot == int(l.slot.Load()) && l.asked.Add(1) == 2 {
		return nil, &locker.Error{Op: "acquire", Name: name, Err: &verdict.Died{Err: errors.New("lost again")}}
	}
	return l.Locker.Acquire(ctx, name, opts...)
}

// The same for a caller that has all slots in whose queues it could wait: it goes on looking at the others.
func TestGrantThatIsLostWhileLooking(t *testing.T) {
	const n = queuesOfTheFirst + 1
	bubble(t, func(t *testing.T, s *membackend.Server) {
		for range 20 {
			l, other := &diesOnce{Locker: openMem(t, s)}, openMem(t, s)
			theirs := tryPermit(t, other, n)
			ctx, mine := withPermits(t, l, n, n-1)
			l.slot.Store(int32(locker.Slot(theirs))) //nolint:gosec // small
			time.AfterFunc(10*time.Second, func() { release(t, theirs) })
			limited, cancel := context.WithTimeout(ctx, time.Minute)
			lease, err := locker.AcquirePermit(limited, l, "job", n)
			cancel()
			if err != nil {
				t.Fatalf("AcquirePermit = %v", err)
			}
			release(t, append(mine, lease)...)
			time.Sleep(time.Second) // what nobody wants is given back
		}
	})
}
