package locker_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/membackend"
	"github.com/fencedlock/locker/middleware"
)

func tryPermit(t *testing.T, l locker.Locker, n int) locker.Lease {
	t.Helper()
	lease, err := locker.TryAcquirePermit(t.Context(), l, "job", n)
	if err != nil {
		t.Fatalf("TryAcquirePermit = %v, want a permit", err)
	}
	return lease
}

func release(t *testing.T, leases ...locker.Lease) {
	t.Helper()
	for _, lease := range leases {
		if err := lease.Release(t.Context()); err != nil {
			t.Errorf("Release = %v", err)
		}
	}
}

func TestPermitsAreNumberedSlots(t *testing.T) {
	bubble(t, func(t *testing.T, s *membackend.Server) {
		const n = 20
		l, other := openMem(t, s), openMem(t, s)
		var leases []locker.Lease
		var slots []int
		for i := range n {
			from := l
			if i%2 == 0 {
				from = other
			}
			lease := tryPermit(t, from, n)
			leases, slots = append(leases, lease), append(slots, locker.Slot(lease))
			if lease.Name() != "job" || lease.Err() != nil || lease.Token() <= 0 {
				t.Errorf("permit of %q with token %v, Err %v", lease.Name(), lease.Token(), lease.Err())
			}
		}
		slices.Sort(slots)
		if slots[0] != 1 || slots[n-1] != n || len(slices.Compact(slots)) != n {
			t.Errorf("the slots of %d permits are %v, want each from 1 on once", n, slots)
		}
		_, err := locker.TryAcquirePermit(t.Context(), l, "job", n)
		wantErr(t, "one permit more", err, "job", locker.ErrHeld)
		wantAllFree(t, s, "job") // the lock of that name is another one
		more, err := locker.TryAcquirePermit(t.Context(), l, "job", n+1)
		if err != nil || locker.Slot(more) != n+1 {
			t.Fatalf("with a larger n = %v, want slot %d", err, n+1)
		}
		lock, err := l.Acquire(t.Context(), "job")
		if err != nil || locker.Slot(lock) != 0 {
			t.Fatalf("the lock = %v, slot %d", err, locker.Slot(lock))
		}
		release(t, append(leases, more, lock)...)
	})
}

// Alone, a permit costs what a lock costs: a request and a round trip for each of acquire and release.
func TestPermitAloneCostsTwoRequests(t *testing.T) {
	bubble(t, func(t *testing.T, s *membackend.Server) {
		link := membackend.NewLink()
		l := openMem(t, s, membackend.WithLink(link))
		link.Delay(30*time.Millisecond, 20*time.Millisecond)
		for range 50 {
			before, began := s.Requests(), time.Now()
			lease, err := locker.AcquirePermit(t.Context(), l, "job", 7)
			if err != nil {
				t.Fatal(err)
			}
			if took := time.Since(began); took != 50*time.Millisecond {
				t.Errorf("a free permit took %v, want one round trip of 50ms", took)
			}
			release(t, lease)
			if n := s.Requests() - before; n != 2 {
				t.Errorf("a free permit cost %d requests, want 2", n)
			}
		}
	})
}

// A program asks first for the slot that it had last, so a slot's data stays with it.
func TestPermitComesBackToItsSlot(t *testing.T) {
	bubble(t, func(t *testing.T, s *membackend.Server) {
		l := openMem(t, s)
		first := tryPermit(t, l, 100)
		release(t, first)
		for range 10 {
			next := tryPermit(t, l, 100)
			if locker.Slot(next) != locker.Slot(first) {
				t.Errorf("slot %d, want %d again", locker.Slot(next), locker.Slot(first))
			}
			release(t, next)
		}
	})
}

func TestPermitsUnderContention(t *testing.T) {
	for _, tc := range []struct {
		n    int
		most float64 // requests for each permit, with its release
	}{{1, 4.7}, {3, 8.7}, {8, 9}, {40, 3}} {
		bubble(t, func(t *testing.T, s *membackend.Server) {
			const contenders, rounds = 16, 100
			lockers := []locker.Locker{openMem(t, s), openMem(t, s), openMem(t, s), openMem(t, s)}
			var inside, peak atomic.Int32
			slots := make([]atomic.Int32, tc.n+1)
			var all sync.WaitGroup
			for i := range contenders {
				all.Go(func() {
					for range rounds {
						err := locker.DoPermit(t.Context(), lockers[i%4], "job", tc.n, func(_ context.Context, lease locker.Lease) error {
							now := inside.Add(1)
							for old := peak.Load(); now > old && !peak.CompareAndSwap(old, now); old = peak.Load() {
							}
							if slots[locker.Slot(lease)].Add(1) != 1 {
								t.Errorf("two have slot %d", locker.Slot(lease))
							}
							time.Sleep(time.Millisecond) // on the clock of the bubble: others come
							slots[locker.Slot(lease)].Add(-1)
							inside.Add(-1)
							return nil
						})
						if err != nil {
							t.Error(err)
						}
					}
				})
			}
			all.Wait()
			synctest.Wait()
			if got, want := int(peak.Load()), min(tc.n, contenders); got != want {
				t.Errorf("%d had one of %d permits at the same time, want %d", got, tc.n, want)
			}
			each := float64(s.Requests()) / (contenders * rounds)
			t.Logf("n = %d: %.1f requests for each permit", tc.n, each)
			if each > tc.most {
				t.Errorf("n = %d: %.1f requests for each permit, want at most %v", tc.n, each, tc.most)
			}
		})
	}
}

func TestPermitInsideOfAPermit(t *testing.T) {
	bubble(t, func(t *testing.T, s *membackend.Server) {
		l := openMem(t, s)
		for n := 1; n <= 6; n++ {
			nest(t, t.Context(), l, n, n)
		}
	})
}

// nest asks for one permit inside of another until none is left.
func nest(t *testing.T, ctx context.Context, l locker.Locker, n, left int) {
	err := locker.DoPermit(ctx, l, "job", n, func(ctx context.Context, _ locker.Lease) error {
		if left > 0 {
			nest(t, ctx, l, n, left-1)
		}
		return nil
	})
	switch {
	case left > 0 && err != nil:
		t.Errorf("n = %d, with %d permits left: %v", n, left, err)
	case left == 0 && !errors.Is(err, locker.ErrHeldByCaller):
		t.Errorf("n = %d, without a permit left: %v, want ErrHeldByCaller", n, err)
	}
}

func TestPermitsRefuseBadArguments(t *testing.T) {
	bubble(t, func(t *testing.T, s *membackend.Server) {
		l := openMem(t, s)
		slot := func(r *locker.Request) { r.Slot = 1 }
		for what, tc := range map[string]struct {
			name  string
			n     int
			opt   locker.Option
			match error
		}{
			"no permits":     {"job", 0, locker.NoWait(), locker.ErrOption},
			"fewer":          {"job", -1, locker.NoWait(), locker.ErrOption},
			"too many":       {"job", locker.MaxPermits + 1, locker.NoWait(), locker.ErrOption},
			"a bad name":     {"", 1, locker.NoWait(), locker.ErrName},
			"a bad option":   {"job", 1, locker.WithTTL(-1), locker.ErrOption},
			"minimum hold":   {"job", 1, locker.WithMinHold(1), locker.ErrOption},
			"a chosen slot":  {"job", 1, slot, locker.ErrOption},
			"a slot too low": {"job", 1, func(r *locker.Request) { r.Slot = -2 }, locker.ErrOption},
		} {
			if lease, err := locker.AcquirePermit(t.Context(), l, tc.name, tc.n, tc.opt); !errors.Is(err, tc.match) || lease != nil {
				t.Errorf("%s: %v, %v, want %v", what, lease, err, tc.match)
			}
		}
		if n := s.Requests(); n != 0 {
			t.Errorf("%d requests were sent for bad arguments", n)
		}
	})
	old := &fakeLocker{err: errors.New("features 0x4 not supported")}
	_, _ = locker.TryAcquirePermit(t.Context(), old, "job", 1)
	if r := old.requests[0]; r.Features&locker.FeatureSlots == 0 || r.Slot != 1 || !r.NoWait {
		t.Errorf("request = %+v, want a slot that an old driver refuses", r)
	}
}

func TestPermitsThroughDecorators(t *testing.T) {
	bubble(t, func(t *testing.T, s *membackend.Server) {
		l, err := middleware.Prefix(openMem(t, s), "team/")
		if err != nil {
			t.Fatal(err)
		}
		if l, err = locker.TokenBase(l, 1000); err != nil {
			t.Fatal(err)
		}
		l = middleware.Reentrant(l)
		ctx := middleware.WithTask(t.Context())
		first, err := locker.AcquirePermit(ctx, l, "job", 2, locker.WithTTL(time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		second, err := locker.AcquirePermit(ctx, l, "job", 2)
		if err != nil {
			t.Fatal(err)
		}
		if locker.Slot(first)+locker.Slot(second) != 3 {
			t.Errorf("slots %d and %d, want 1 and 2", locker.Slot(first), locker.Slot(second))
		}
		var seen []int
		for st, err := range locker.List(t.Context(), l, "", 0) {
			if err != nil || st.Name != "job" || st.Holder == nil || st.Holder.Token < 1000 {
				t.Errorf("List = %+v, %v", st, err)
			}
			seen = append(seen, st.Slot)
		}
		if slices.Sort(seen); !slices.Equal(seen, []int{1, 2}) {
			t.Errorf("List shows the slots %v", seen)
		}
		if st, err := locker.Inspect(t.Context(), l, "job", 0); err != nil || st.Holder != nil || st.Slot != 0 {
			t.Errorf("Inspect = %+v, %v, want the lock, which is free", st, err)
		}
		release(t, first, second)
	})
}
