package driver_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
)

func onSlot(slot int) locker.Option { return func(r *locker.Request) { r.Slot = slot } }

func openWithSlots(t testing.TB, f *fake) locker.Locker {
	t.Helper()
	return openWith(t, f, driver.Config{TTL: ttl, Features: locker.FeatureTTL | locker.FeatureSlots})
}

func TestSlotsThatTheDriverDoesNotKnow(t *testing.T) {
	f := &fake{}
	l := open(t, f)
	_, err := l.Acquire(t.Context(), "name", onSlot(1))
	matches(t, "Acquire of a slot", err, errors.ErrUnsupported)
	_, err = locker.AcquirePermit(t.Context(), l, "name", 3)
	matches(t, "AcquirePermit", err, errors.ErrUnsupported)
	g := &fake{}
	withSlots := openWithSlots(t, g)
	for _, slot := range []int{-2, locker.MaxPermits + 1} {
		_, err := withSlots.Acquire(t.Context(), "name", onSlot(slot))
		matches(t, "Acquire of an invalid slot", err, locker.ErrOption)
	}
	if n := len(f.prepared()) + len(g.prepared()); n > 0 {
		t.Errorf("the drivers were asked for %d locks", n)
	}
}

// slotReader is a driver that keeps which slot it was asked about last.
type slotReader struct {
	mute
	asked *int
}

func (d slotReader) Inspect(_ context.Context, name string, look locker.Look) (locker.Status, error) {
	*d.asked = look.Slot
	return locker.Status{Name: name, Slot: look.Slot}, nil
}

func (d slotReader) List(string, int) driver.Pages { return nil }

func (d slotReader) CurrentToken(_ context.Context, _ string, slot int) (locker.Token, error) {
	*d.asked = slot
	return 0, nil
}

// looksAtSlots are the questions about a slot.
func looksAtSlots(l locker.Locker, slot int) map[string]error {
	_, inspected := locker.Inspect(context.Background(), l, "name", locker.Look{Slot: slot})
	_, read := locker.CurrentToken(context.Background(), l, "name", slot)
	return map[string]error{"Inspect": inspected, "CurrentToken": read}
}

func TestLooksAtSlots(t *testing.T) {
	const nobody = -7
	asked := nobody
	without := driver.New(slotReader{asked: &asked}, driver.Config{Features: locker.FeatureTTL})
	with := driver.New(slotReader{asked: &asked}, driver.Config{Features: locker.FeatureSlots})
	defer without.Close()
	defer with.Close()
	for slot, wrong := range map[int]error{
		1: nil, locker.MaxPermits: nil, locker.LineSlot: nil, -2: locker.ErrOption, locker.MaxPermits + 1: locker.ErrOption,
	} {
		for what, err := range looksAtSlots(without, slot) {
			want := errors.ErrUnsupported
			if wrong != nil {
				want = wrong
			}
			matches(t, what+" of a slot, without permits", err, want)
		}
		if asked != nobody {
			t.Errorf("a driver without permits was asked about slot %d", asked)
		}
		for what, err := range looksAtSlots(with, slot) {
			matches(t, what+" of a slot", err, wrong)
			if wrong == nil && asked != slot {
				t.Errorf("%s of slot %d asks the driver about %d", what, slot, asked)
			}
		}
		if wrong != nil && asked != nobody {
			t.Errorf("the driver was asked about slot %d", asked)
		}
		asked = nobody
	}
	for what, err := range looksAtSlots(without, 0) {
		matches(t, what+" of the lock, without permits", err, nil)
	}
}

// The lock of a name and its slots have a queue each, and one is no lock of the others.
func TestSlotsHaveQueuesOfTheirOwn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		grants := make(chan func(*fakeLock) driver.Grant)
		f := &fake{acquire: queues(grants)}
		l := openWithSlots(t, f)
		slots := []int{0, 1, 2, locker.LineSlot}
		var heads, second []*pending
		for _, slot := range slots {
			heads = append(heads, start(t, l, "name", onSlot(slot)))
		}
		synctest.Wait()
		for _, slot := range slots {
			second = append(second, start(t, l, "name", onSlot(slot)))
		}
		synctest.Wait()
		var asked []int
		for _, lock := range f.prepared() {
			asked = append(asked, lock.req.Slot)
		}
		slices.Sort(asked)
		if n := len(slices.Compact(slices.Clone(asked))); n != len(slots) {
			t.Errorf("the driver was asked for the slots %v, want each of %v", asked, slots)
		}
		for range slots {
			grants <- grant
		}
		for i, p := range heads {
			release(t, p.granted())
			second[i].cancel(nil)
		}
	})
}

func TestAcquireOfOwnSlot(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := openWithSlots(t, &fake{})
		lease := mustAcquire(t, l, "name", onSlot(1))
		ctx, cancel := locker.WithLease(t.Context(), lease)
		defer cancel()
		_, err := l.Acquire(ctx, "name", onSlot(1))
		matches(t, "Acquire of the same slot", err, locker.ErrHeldByCaller)
		for _, slot := range []int{0, 2, locker.LineSlot} {
			other, err := l.Acquire(ctx, "name", onSlot(slot))
			if err != nil {
				t.Errorf("Acquire of slot %d below slot 1 = %v", slot, err)
				continue
			}
			release(t, other)
		}
		release(t, lease)
	})
}

func TestEventsAndLeasesHaveTheSlot(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := openWithSlots(t, &fake{})
		var mu sync.Mutex
		var seen []locker.Event
		attach(t, l, observerFunc(func(_ context.Context, e locker.Event) {
			mu.Lock()
			defer mu.Unlock()
			seen = append(seen, e)
		}), 0)
		lease := mustAcquire(t, l, "name", onSlot(7))
		if list := leasesOf(t, l); len(list) != 1 || list[0].Slot != 7 || list[0].Name != "name" {
			t.Errorf("Leases = %+v, want slot 7 of name", list)
		}
		release(t, lease)
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		if len(seen) != 2 {
			t.Errorf("%d events, want granted and released", len(seen))
		}
		for _, e := range seen {
			if e.Slot != 7 || e.Name != "name" {
				t.Errorf("event %+v, want slot 7 of name", e)
			}
		}
	})
}

func release(t testing.TB, leases ...locker.Lease) {
	t.Helper()
	for _, lease := range leases {
		if err := lease.Release(t.Context()); err != nil {
			t.Errorf("Release = %v", err)
		}
	}
}
