package itest

import (
	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance"
)

// WantHolder fails unless Inspect shows that a lock's holder says text of itself, and that the first
// that waits says waiter; with "" nobody has to wait.
func WantHolder(t conformance.T, looker locker.Locker, name, text, waiter string) {
	t.Helper()
	s, err := locker.Inspect(t.Context(), looker, name, locker.Look{Waiters: 1})
	switch {
	case err != nil || s.Holder == nil || s.Holder.Holder != text:
		t.Errorf("Inspect(%q) = %+v with the holder %+v, %v, want one that says %q", name, s, s.Holder, err, text)
	case waiter != "" && (len(s.Waiters) == 0 || s.Waiters[0].Holder != waiter):
		t.Errorf("Inspect(%q) shows the waiters %+v, want one that says %q", name, s.Waiters, waiter)
	}
}
