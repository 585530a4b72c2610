package locker_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/membackend"
)

// Those who wait get permits in the order in which they came, whichever slots are released.
func TestPermitsAreInTheOrderOfTheLine(t *testing.T) {
	bubble(t, func(t *testing.T, s *membackend.Server) {
		const n = 12 // more than the first in the line has places for
		l := openMem(t, s)
		held := tryPermits(t, l, n)
		var waiters []<-chan result
		for range n {
			waiters = append(waiters, startPermit(t.Context(), openMem(t, s), n))
			time.Sleep(time.Millisecond)
		}
		for i := range waiters {
			release(t, held[i])
			time.Sleep(400 * time.Millisecond)
			select {
			case r := <-waiters[i]:
				if r.err != nil || locker.Slot(r.lease) != locker.Slot(held[i]) {
					t.Fatalf("waiter %d = %v, %v, want slot %d", i, r.lease, r.err, locker.Slot(held[i]))
				}
				defer release(t, r.lease)
			default:
				t.Fatalf("waiter %d, the first in the line, doesn't get the permit that was released", i)
			}
		}
	})
}

func TestPermitThatIsGivenUpLeavesNothing(t *testing.T) {
	bubble(t, func(t *testing.T, s *membackend.Server) {
		l, other := openMem(t, s), openMem(t, s)
		held := []locker.Lease{tryPermit(t, other, 2), tryPermit(t, other, 2)}
		for what, ctx := range map[string]func() (context.Context, context.CancelFunc){
			"the first in the line":  func() (context.Context, context.CancelFunc) { return context.WithTimeout(t.Context(), time.Minute) },
			"the second in the line": func() (context.Context, context.CancelFunc) { return context.WithTimeout(t.Context(), time.Second) },
		} {
			ctx, cancel := ctx()
			_, err := locker.AcquirePermit(ctx, l, "job", 2)
			cancel()
			wantErr(t, what, err, "job", locker.ErrHeld, context.DeadlineExceeded)
		}
		first, cancel := context.WithCancel(t.Context())
		got := startPermit(first, l, 2)
		synctest.Wait()
		cancel()
		r := <-got
		wantErr(t, "cancelled", r.err, "job", context.Canceled)
		synctest.Wait()
		if left := s.Residue(); strings.Contains(left, "1 wait") || strings.Contains(left, "line") {
			t.Errorf("left: %s", left)
		}
		release(t, held...)
	})
}

// The place in the line may be lost while slots are waited for. Then the call stands in line again.
func TestPermitWhoseLineIsLost(t *testing.T) {
	bubble(t, func(t *testing.T, s *membackend.Server) {
		l, other := openMem(t, s), openMem(t, s)
		held := tryPermit(t, other, 1)
		got := startPermit(t.Context(), l, 1)
		synctest.Wait()
		behind := startPermit(t.Context(), other, 1)
		synctest.Wait()
		if !s.Expire("job\x00line") { // the key of the line in memory
			t.Fatal("nobody is the first in the line")
		}
		time.Sleep(time.Second)
		release(t, held)
		r := <-behind // it has taken the first place
		if r.err != nil {
			t.Fatal(r.err)
		}
		select {
		case r := <-got:
			t.Fatalf("the former first in the line = %v, %v, want it to wait", r.lease, r.err)
		default:
		}
		release(t, r.lease)
		if r = <-got; r.err != nil {
			t.Fatal(r.err)
		}
		release(t, r.lease)
	})
}

func TestPermitsAfterAFailureAndAPanic(t *testing.T) {
	bubble(t, func(t *testing.T, s *membackend.Server) {
		other := openMem(t, s)
		var held []locker.Lease
		for range 3 {
			held = append(held, tryPermit(t, other, 3))
		}
		broken := errors.New("connection refused")
		for what, third := range map[string]func(slot int) error{
			"fails": func(int) error { return broken },
			"panics": func(slot int) error {
				if slot == 2 {
					panic("a defect of the locker")
				}
				return nil
			},
		} {
			d := &slotDisturbed{openMem(t, s), third}
			func() {
				defer func() {
					if r := recover(); (r != nil) != (what == "panics") {
						t.Errorf("%s: recovered %v", what, r)
					}
				}()
				go func() {
					time.Sleep(time.Second)
					release(t, held...)
				}()
				_, err := locker.AcquirePermit(t.Context(), d, "job", 3)
				if what == "fails" {
					wantErr(t, "AcquirePermit", err, "job", broken)
				}
			}()
			time.Sleep(2 * time.Second)
			if left := s.Residue(); left != "" {
				t.Errorf("%s: left: %s", what, left)
			}
			held = nil
			for range 3 {
				held = append(held, tryPermit(t, other, 3))
			}
		}
		release(t, held...)
	})
}

// A Locker may panic when a call that has lost is cancelled. Then what has won must not be kept.
func TestPermitsAfterAPanicOfALoser(t *testing.T) {
	bubble(t, func(t *testing.T, s *membackend.Server) {
		other := openMem(t, s)
		held := []locker.Lease{tryPermit(t, other, 2), tryPermit(t, other, 2)}
		d := panicsWhenCancelled{openMem(t, s), 3 - locker.Slot(held[0])}
		go func() {
			time.Sleep(time.Second)
			release(t, held[0])
		}()
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic doesn't reach the caller")
				}
			}()
			_, _ = locker.AcquirePermit(t.Context(), d, "job", 2)
		}()
		release(t, held[1])
	})
}

// The first in the line looks at all slots in turn, however many there are.
func TestPermitOfManyIsFound(t *testing.T) {
	bubble(t, func(t *testing.T, s *membackend.Server) {
		const n = 150
		l, other := openMem(t, s), openMem(t, s)
		held := tryPermits(t, other, n)
		for i := range 10 {
			got := startPermit(t.Context(), l, n)
			synctest.Wait()
			began := time.Now()
			release(t, held[i])
			r := <-got
			if r.err != nil || locker.Slot(r.lease) != locker.Slot(held[i]) {
				t.Fatalf("AcquirePermit = %v, %v, want slot %d", r.lease, r.err, locker.Slot(held[i]))
			}
			if took := time.Since(began); took > 6*250*time.Millisecond {
				t.Errorf("a slot that is free was found after %v, want all %d to be looked at by then", took, n)
			}
			held[i] = r.lease
		}
		release(t, held...)
	})
}

// A Locker may panic when the first in the line looks at a slot in whose queue it has no place.
func TestPermitsAfterAPanicInALook(t *testing.T) {
	bubble(t, func(t *testing.T, s *membackend.Server) {
		const n = 8
		other := openMem(t, s)
		held := tryPermits(t, other, n)
		var asked atomic.Int32
		d := &disturbed{openMem(t, s), func(string) error {
			switch asked.Add(1) {
			case 2 + 1 + queuesOfTheFirst + 1: // the first look
				release(t, held...) // so the other calls of this look are granted
			case 2 + 1 + queuesOfTheFirst + 2:
				panic("a defect of the locker")
			}
			return nil
		}}
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic doesn't reach the caller")
				}
			}()
			_, _ = locker.AcquirePermit(t.Context(), d, "job", n)
		}()
	})
}

// A wait outlives a failure that is over before the places in the queues are lost. So a look that fails
// doesn't end it either.
func TestPermitAfterLooksThatFail(t *testing.T) {
	bubble(t, func(t *testing.T, s *membackend.Server) {
		const n = 8
		other := openMem(t, s)
		held := tryPermits(t, other, n)
		var asked, failed atomic.Int32
		began := time.Now()
		d := &disturbed{openMem(t, s), func(string) error {
			if asked.Add(1) > 2+1+queuesOfTheFirst && time.Since(began) < time.Second {
				failed.Add(1)
				return errors.New("connection refused")
			}
			return nil
		}}
		got := startPermit(t.Context(), d, n)
		time.Sleep(2 * time.Second)
		if failed.Load() == 0 {
			t.Error("no look has failed")
		}
		release(t, held...)
		r := <-got
		if r.err != nil {
			t.Fatal(r.err)
		}
		release(t, r.lease)
	})
}

// tryPermits takes all n permits.
func tryPermits(t *testing.T, l locker.Locker, n int) (held []locker.Lease) {
	t.Helper()
	for range n {
		held = append(held, tryPermit(t, l, n))
	}
	return held
}

// startPermit asks in the background.
func startPermit(ctx context.Context, l locker.Locker, n int, opts ...locker.Option) <-chan result {
	got := make(chan result, 1)
	go func() {
		lease, err := locker.AcquirePermit(ctx, l, "job", n, opts...)
		got <- result{lease, err}
	}()
	return got
}

type result struct {
	lease locker.Lease
	err   error
}

// slotDisturbed calls before for each slot that is waited for.
type slotDisturbed struct {
	locker.Locker
	before func(slot int) error
}

func (d *slotDisturbed) Acquire(ctx context.Context, name string, opts ...locker.Option) (locker.Lease, error) {
	if req, err := locker.Resolve(name, opts...); err == nil && !req.NoWait && req.Slot > 0 {
		if err := d.before(req.Slot); err != nil {
			return nil, &locker.Error{Op: "acquire", Name: name, Err: err}
		}
	}
	return d.Locker.Acquire(ctx, name, opts...)
}

type panicsWhenCancelled struct {
	locker.Locker
	slot int
}

func (p panicsWhenCancelled) Acquire(ctx context.Context, name string, opts ...locker.Option) (locker.Lease, error) {
	if req, err := locker.Resolve(name, opts...); err == nil && !req.NoWait && req.Slot == p.slot {
		<-ctx.Done()
		panic("a defect of the locker")
	}
	return p.Locker.Acquire(ctx, name, opts...)
}

// queuesOfTheFirst is in how many queues the first in the line has places.
const queuesOfTheFirst = 4

// A call with more permits finds those that the waiters of this process may not have.
func TestPermitOfALargerNumber(t *testing.T) {
	bubble(t, func(t *testing.T, s *membackend.Server) {
		l := openMem(t, s)
		held := tryPermit(t, l, 1)
		waiting := startPermit(t.Context(), l, 1)
		time.Sleep(time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		lease, err := locker.AcquirePermit(ctx, l, "job", 5) // it asks for two slots, and one is held
		if err != nil {
			t.Fatalf("with four of five slots free: %v", err)
		}
		release(t, lease)
		release(t, held)
		release(t, (<-waiting).lease)
	})
}

// The same after another call with as many permits has waited after that one, and has given up.
func TestPermitOfALargerNumberBehindAnother(t *testing.T) {
	bubble(t, func(t *testing.T, s *membackend.Server) {
		l := openMem(t, s)
		held := tryPermits(t, l, 5)
		waiting := startPermit(t.Context(), l, 1)
		time.Sleep(time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		behind, giveUp := context.WithCancel(ctx)
		gaveUp := startPermit(behind, l, 5)
		time.Sleep(time.Second)
		giveUp()
		if r := <-gaveUp; r.err == nil {
			t.Fatal("a permit while all are held")
		}
		var first locker.Lease
		for _, lease := range held {
			if locker.Slot(lease) == 1 {
				first = lease
				continue
			}
			release(t, lease)
		}
		lease, err := locker.AcquirePermit(ctx, l, "job", 5)
		if err != nil {
			t.Fatalf("with four of five slots free: %v", err)
		}
		release(t, lease)
		release(t, first)
		release(t, (<-waiting).lease)
	})
}
