package locker_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker"
)

// hooked can't be compared, because it has a function.
type hooked struct {
	locker.Locker
	before func(name string)
}

func (h hooked) Acquire(ctx context.Context, name string, opts ...locker.Option) (locker.Lease, error) {
	h.before(name)
	return h.Locker.Acquire(ctx, name, opts...)
}

// A call that wants a lock twice would wait for itself, whatever decorators are around the Locker.
func TestTheSameLockTwiceIsRefused(t *testing.T) {
	for _, tc := range []struct {
		what, url  string
		hooked     bool
		comparable bool
	}{
		{what: "of a backend", url: "mem://twice", comparable: true},
		{what: "with a holder", url: "mem://twice?holder=job", comparable: true},
		{what: "with a token base", url: "mem://twice?token_base=1", comparable: true},
		{what: "with both", url: "mem://twice?holder=job&token_base=1", comparable: true},
		{what: "with a decorator that has a function", url: "mem://twice", hooked: true},
	} {
		t.Run(tc.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, err := locker.Open(t.Context(), tc.url)
				if err != nil {
					t.Fatal(err)
				}
				defer l.Close()
				if tc.hooked {
					l = hooked{l, func(string) {}}
				}
				twice := locker.Wants("a", "b", "a")
				calls := map[string]func(ctx context.Context) error{
					"AcquireAll":    func(ctx context.Context) error { _, err := locker.AcquireAll(ctx, l, twice); return err },
					"TryAcquireAll": func(ctx context.Context) error { _, err := locker.TryAcquireAll(ctx, l, twice); return err },
					"DoAll": func(ctx context.Context) error {
						return locker.DoAll(ctx, l, twice, func(context.Context, *locker.LeaseSet) error { return nil })
					},
				}
				if tc.comparable {
					a := locker.Item{Locker: l, Want: locker.Want{Name: "a"}}
					calls["AcquireInOrder"] = func(ctx context.Context) error { _, err := locker.AcquireInOrder(ctx, []locker.Item{a, a}); return err }
				}
				for call, acquire := range calls {
					ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
					if err := acquire(ctx); !errors.Is(err, locker.ErrName) {
						t.Errorf("%s of a name twice = %v, want ErrName", call, err)
					}
					cancel()
				}
				synctest.Wait()
			})
		})
	}
}

// Where Lockers can't be compared, the same name of two of them is no mistake.
func TestAcquireInOrderOfLockersThatCantBeCompared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var items []locker.Item
		for _, url := range []string{"mem://old", "mem://recent"} {
			l, err := locker.Open(t.Context(), url)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			items = append(items, locker.Item{Locker: hooked{l, func(string) {}}, Want: locker.Want{Name: "a"}})
		}
		leases, err := locker.AcquireInOrder(t.Context(), items)
		if err != nil {
			t.Fatalf("AcquireInOrder = %v, want leases", err)
		}
		if err := leases.Release(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
