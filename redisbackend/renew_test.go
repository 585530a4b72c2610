package redisbackend_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
)

func TestRenewIsOneMessage(t *testing.T) {
	f := newFake(t)
	f.answers(granted)
	d := f.driver(t, nil)
	var locks []driver.Lock
	for range 1000 {
		locks = append(locks, newLock(t, d, time.Minute))
	}
	seen := make([]int, len(locks))
	before := driver.Stamp()
	d.Renew(t.Context(), locks, func(i int, base driver.Instant, err error) {
		seen[i]++
		if err != nil || base < before || base > driver.Stamp() {
			t.Errorf("lock %d: %v, %v, want a new base", i, base, err)
		}
	})
	if slices.Min(seen) != 1 || slices.Max(seen) != 1 {
		t.Errorf("some of %d locks were not reported once", len(locks))
	}
	if got := len(f.called()); got != len(locks) {
		t.Errorf("%d requests, want %d", got, len(locks))
	}

	f.answers(gone)
	d.Renew(t.Context(), locks[:1], func(_ int, _ driver.Instant, err error) {
		if !errors.Is(err, locker.ErrLost) {
			t.Errorf("a lock of which nothing exists: %v, want ErrLost", err)
		}
	})
	f.answers("-LOADING Redis is loading the dataset in memory\r\n")
	d.Renew(t.Context(), locks[1:2], func(_ int, _ driver.Instant, err error) {
		if err == nil || errors.Is(err, locker.ErrLost) {
			t.Errorf("a server that is loading: %v, want an error that is not ErrLost", err)
		}
	})
}

// When one answer of a message stays out, those that came before it count.
func TestAnsweredBeforeTheRest(t *testing.T) {
	for what, rest := range map[string]string{"silence": "", "a broken connection": hangUp} {
		t.Run(what, func(t *testing.T) {
			f := newFake(t)
			for _, d := range []driver.Driver{f.driver(t, nil), f.ownDriver(t)} {
				locks := []driver.Lock{newLock(t, d, time.Minute), newLock(t, d, time.Minute), newLock(t, d, time.Minute)}
				f.answers(granted, gone, rest)
				ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
				defer cancel()
				got := make([]error, len(locks))
				d.Renew(ctx, locks, func(i int, _ driver.Instant, err error) { got[i] = err })
				if got[0] != nil || !errors.Is(got[1], locker.ErrLost) || got[2] == nil || errors.Is(got[2], locker.ErrLost) {
					t.Errorf("Renew reports %v, want nil, ErrLost and an error that is not ErrLost", got)
				}
			}
		})
	}
}
