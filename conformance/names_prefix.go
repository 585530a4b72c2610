package conformance

import (
	"errors"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance/step"
)

// A part of case H59: what looks at a lock, and what takes it away, needs the prefix as well.

// looksBelowPrefixes has somebody hold the name below the prefix of one, nobody below two, and then
// somebody without a prefix. It asks for what the backend claims.
func looksBelowPrefixes(t T, h *Harness, one, two, bare locker.Locker, name string) {
	t.Helper()
	below := step.Acquire(t, one, name, h.ttl()...)
	wantShown(t, h, one, name, below)
	wantShown(t, h, two, name, nil)
	wantShown(t, h, bare, name, nil)
	above := step.Acquire(t, bare, name, h.ttl()...)
	waitShown(t, h, one, below)
	waitShown(t, h, bare, above)
	wantShown(t, h, one, name, below)
	wantShown(t, h, two, name, nil)
	wantShown(t, h, bare, name, above)

	if locker.BreakSeenAtRenewal.Check(h.guarantees) == nil {
		for what, err := range map[string]error{
			"below a prefix, with the token of the lock without it": second(tryBreak(t, one, name, above.Token(), someBreach(true))),
			"below another prefix": second(tryBreak(t, two, name, below.Token(), someBreach(true))),
			"without a prefix, with the token of the lock below one": second(tryBreak(t, bare, name, below.Token(), someBreach(true))),
		} {
			if !errors.Is(err, locker.ErrNotHolder) {
				t.Errorf("Break %s = %v, want ErrNotHolder", what, err)
			}
		}
		b := someBreach(false)
		takeAway(t, h, one, below, b)
		wantBreach(t, "Renew below the prefix", step.Renew(t, below), b)
		step.FreeWithin(t, h.HandOffLimit(), one, name)
	} else {
		step.Release(t, below)
	}
	step.WantLive(t, above, bare)
	step.Release(t, above)
}

// wantShown asks a Locker who has the lock: the lease, or nobody if it is nil.
func wantShown(t T, h *Harness, l locker.Locker, name string, lease locker.Lease) {
	t.Helper()
	var token locker.Token
	locks := 0
	if lease != nil {
		token, locks = lease.Token(), 1
	}
	if got, err := locker.CurrentToken(t.Context(), l, name, 0); got != token && !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("CurrentToken = %v, %v, want %v", got, err, token)
	}
	if locker.InspectionHolder.Check(h.guarantees) != nil {
		return
	}
	if lease == nil {
		wantUnheld(t, l, name, "of a lock that is held below another prefix alone")
	} else {
		wantHolder(t, l, lease)
	}
	if !listsByName(t, l, name) {
		return
	}
	all := list(t, l, name, 0)
	if len(all) != locks {
		t.Errorf("List(%q) shows %v, want %d locks", name, all, locks)
	}
	for _, s := range all {
		if s.Name != name || s.Holder == nil || s.Holder.Token != 0 && s.Holder.Token != token {
			t.Errorf("List(%q) shows %q (%s): %s, want the lease with token %v", name, s.Name, s.Key, inWords(s), token)
		}
	}
}
