//go:build unix

package pg

import (
	"errors"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance"
	"github.com/fencedlock/locker/conformance/step"
	"github.com/fencedlock/locker/integration/internal/itest"
	"github.com/fencedlock/locker/pgbackend"
)

// These two names have one key: of 64 bits of SHA-256, with the default prefix. They were found by
// computing some thousand million of them.
var collision = [2]string{"5a4fd342f1e0663b", "73fce4aa41f7e140"}

// collisionPack is two names that the server can't tell apart.
func (s *Service) collisionPack() []conformance.Case {
	return []conformance.Case{
		{ID: "I80", Name: "names-with-one-key-neither-share-nor-deadlock", Run: s.collisions,
			Why: "advisory locks are reentrant in a session: two names with the same key would " +
				"both be held, or a process would wait for itself"},
	}
}

func (s *Service) collisions(t conformance.T, _ *conformance.Harness) {
	if pgKey(collision[0]) != pgKey(collision[1]) {
		t.Fatalf("the keys of %q are different", collision)
	}
	l, other, third := step.CloseAtEnd(t, s.open(t)), step.CloseAtEnd(t, s.open(t)), step.CloseAtEnd(t, s.open(t))
	for i, one := range collision {
		two := collision[1-i]
		lease := step.Acquire(t, l, one)
		for _, opts := range [][]locker.Option{{locker.NoWait()}, nil} { // here it would wait for itself
			w := step.StartAcquire(t, l, two, opts...)
			if !w.Returned(itest.ShortWait) {
				t.Fatalf("Acquire of %q has not returned after %v, while this Locker has %q", two, itest.ShortWait, one)
			}
			if !errors.Is(w.Err, pgbackend.ErrCollision) || errors.Is(w.Err, locker.ErrHeld) {
				t.Errorf("Acquire of a name whose key is that of one in use = %v, want ErrCollision alone", w.Err)
			}
		}
		step.WantLive(t, lease, third)

		waiter := step.StartAcquire(t, other, two) // and there it is somebody else's lock
		step.Eventually(t, itest.ShortWait, func() error { return s.queued(t, two, 1) })
		if _, err := locker.TryAcquire(t.Context(), step.CloseAtEnd(t, s.open(t)), two); !errors.Is(err, locker.ErrHeld) {
			t.Errorf("TryAcquire in another Locker = %v, want ErrHeld: there are never two holders of one key", err)
		}
		step.Release(t, lease)
		next := waiter.Granted(t, itest.ShortWait)
		if _, err := locker.TryAcquire(t.Context(), other, one); !errors.Is(err, pgbackend.ErrCollision) {
			t.Errorf("TryAcquire of %q = %v, want ErrCollision: a lease of this Locker that was waited for has its key", one, err)
		}
		step.Release(t, next)
		step.FreeWithin(t, itest.ShortWait, other, one)
		step.FreeWithin(t, itest.ShortWait, l, two)
	}
}
