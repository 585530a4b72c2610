package fencetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/fence"
)

// open makes several Stores, each with its own connections.
func (h *Harness) open(n int) ([]Store, error) {
	stores := make([]Store, n)
	for i := range stores {
		var err error
		if stores[i], err = h.Open(); err != nil {
			return nil, err
		}
	}
	return stores, nil
}

// together calls f for each Store at the same time, and returns all errors except fence.ErrStale.
func together(stores []Store, f func(i int, s Store) error) error {
	errs := make([]error, len(stores))
	var all sync.WaitGroup
	for i, s := range stores {
		all.Go(func() {
			if err := f(i, s); err != nil && !errors.Is(err, fence.ErrStale) {
				errs[i] = err
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// oneStep lets several Stores write at the same time, again and again. At the end of each round the
// value must be the one of the largest token, because every other write came before it or was
// refused.
func oneStep(ctx context.Context, h *Harness) error {
	const writers, rounds = 4, 100
	stores, err := h.open(writers)
	if err != nil {
		return err
	}
	name := resource("step")
	for round := range rounds {
		first := locker.Token(round*writers + 1)
		order := rand.Perm(writers) // the one with the largest token may begin last
		err := together(stores, func(i int, s Store) error {
			token := first + locker.Token(order[i])
			return s.Write(ctx, name, token, fmt.Sprint(token))
		})
		if err != nil {
			return err
		}
		got, err := stores[0].Read(ctx, name)
		if err != nil {
			return err
		}
		if want := fmt.Sprint(first + writers - 1); got != want {
			return fmt.Errorf("round %d: the value is %q, want %q, which the largest token has written", round, got, want)
		}
	}
	return nil
}

// noUpdateLost lets several Stores claim, read, modify and write at the same time, as stale holders
// do alongside live ones. Each acknowledged update must exist at the end.
func noUpdateLost(ctx context.Context, h *Harness) error {
	const holders, updates = 4, 50
	stores, err := h.open(holders)
	if err != nil {
		return err
	}
	name := resource("update")
	var last atomic.Int64
	var mu sync.Mutex
	acknowledged := make(map[string]bool)
	err = together(stores, func(_ int, s Store) error {
		for range updates {
			token := locker.Token(last.Add(1))
			err := update(ctx, s, name, token)
			switch {
			case err == nil:
				mu.Lock()
				acknowledged[fmt.Sprint(token)] = true
				mu.Unlock()
			case !errors.Is(err, fence.ErrStale):
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	value, err := stores[0].Read(ctx, name)
	if err != nil {
		return err
	}
	for _, token := range strings.Fields(value) {
		delete(acknowledged, token)
	}
	if len(acknowledged) > 0 {
		return fmt.Errorf("%d updates were acknowledged and are lost, of the tokens %v", len(acknowledged), acknowledged)
	}
	return nil
}

// update adds its token to the value.
func update(ctx context.Context, s Store, resource string, token locker.Token) error {
	if err := s.Claim(ctx, resource, token); err != nil {
		return err
	}
	value, err := s.Read(ctx, resource)
	if err != nil {
		return err
	}
	time.Sleep(rand.N(100 * time.Microsecond)) // the work
	return s.Write(ctx, resource, token, value+fmt.Sprintf(" %d", token))
}
