package locker_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/membackend"
)

// guarded acquires with AcquireAll.
type guarded struct{ locker.Locker }

func (g guarded) Acquire(ctx context.Context, name string, opts ...locker.Option) (locker.Lease, error) {
	leases, err := locker.AcquireAll(ctx, g.Locker, locker.Wants(name), opts...)
	if err != nil {
		return nil, err
	}
	return leases.All()[0], nil
}

// A wait that the outer call has ended, because of a loss of its own, is over for the inner call, too.
func TestAcquireAllInsideOfAcquireAll(t *testing.T) {
	bubble(t, func(t *testing.T, s *membackend.Server) {
		tries := 0
		l, other := openMem(t, s), openMem(t, s)
		g := guarded{&disturbed{l, func(string) error {
			if tries++; tries > 100 {
				panic("it asks again and again, without a pause")
			}
			return nil
		}}}
		b, err := other.Acquire(t.Context(), "b")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		failed := make(chan any, 1)
		go func() {
			defer func() {
				if p := recover(); p != nil {
					failed <- p
				}
			}()
			leases, err := locker.AcquireInOrder(ctx, []locker.Item{{l, locker.Want{Name: "a"}}, {g, locker.Want{Name: "b"}}})
			if err == nil {
				err = leases.Release(ctx)
			}
			failed <- err
		}()
		synctest.Wait()
		if !s.Expire("a") {
			t.Fatal("the first lock isn't held")
		}
		time.Sleep(time.Second)
		if err := b.Release(t.Context()); err != nil {
			t.Error(err)
		}
		if what := <-failed; what != nil {
			t.Errorf("after a loss on the way: %v, want both locks", what)
		}
		wantAllFree(t, s, "a", "b")
	})
}

// A call that wants a lock that is its caller's own fails at once, also while another holder has one of them.
func TestAcquireAllOfTheCallersOwn(t *testing.T) {
	bubble(t, func(t *testing.T, s *membackend.Server) {
		l, other := openMem(t, s), openMem(t, s)
		a, err := other.Acquire(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		err = locker.Do(t.Context(), l, "b", func(ctx context.Context, _ locker.Lease) error {
			ctx, cancel := context.WithTimeout(ctx, time.Hour)
			defer cancel()
			began := time.Now()
			_, err := locker.AcquireAll(ctx, l, locker.Wants("a", "b"))
			wantErr(t, "AcquireAll", err, "b", locker.ErrHeldByCaller)
			if took := time.Since(began); took > time.Second {
				t.Errorf("AcquireAll has failed after %v, want at once", took)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
		release(t, a)
	})
}
