package conformance

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"strings"
	"sync/atomic"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance/step"
	"github.com/fencedlock/locker/middleware"
)

// errListedFree says that a list shows a lock that is free.
var errListedFree = errors.New("is listed, and is free")

// listed reads a whole list, and fails the case if a lock is in it twice. Locks are found by their
// keys, because a service may not know the names. With errListedFree the list is complete.
func listed(l iter.Seq2[locker.Status, error]) (map[string]locker.Status, error) {
	all := make(map[string]locker.Status)
	var free error
	for s, err := range l {
		if err != nil {
			return all, err
		}
		if _, twice := all[s.Key]; twice {
			return all, fmt.Errorf("%q (%s) is listed twice", s.Name, s.Key)
		}
		if s.Holder == nil && s.Waiting <= 0 && len(s.Waiters)+len(s.Partial) == 0 {
			free = fmt.Errorf("%q (%s) %w", s.Name, s.Key, errListedFree)
		}
		all[s.Key] = s
	}
	return all, free
}

func list(t T, l locker.Locker, prefix string, waiters int) map[string]locker.Status {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), step.Limit)
	defer cancel()
	all, err := listed(locker.List(ctx, l, prefix, waiters))
	if err != nil {
		t.Fatalf("List(%q): %v", prefix, err)
	}
	return all
}

// listsByName reports whether the service knows the names of locks.
func listsByName(t T, l locker.Locker, prefix string) bool {
	t.Helper()
	for _, err := range locker.List(t.Context(), l, prefix, 0) {
		if errors.Is(err, locker.ErrNoInspector) {
			t.Logf("List = %v", err)
			return false
		}
	}
	return true
}

func listFindsAll(t T, h *Harness) {
	l, looker, base := h.OpenLocker(t), h.OpenLocker(t), step.LockName(t)
	leases := make(map[string]locker.Lease)
	held := func(names ...string) {
		for _, name := range names {
			leases[name] = step.Acquire(t, l, name)
		}
	}
	// Neighbours of each prefix: what a pattern, a path or an end of a range would take for it.
	prefixes := []string{base + "/", base + "[a]*?\\", base + "{b}", base + "%"}
	held(base, base+"0", base+"a", base+"ax/", base+"axx\\", base+".", strings.ToUpper(base)+"/", "x"+base+"/", base+"b}", base+"{b")
	for _, prefix := range prefixes {
		held(prefix)
		for _, name := range odd {
			held(prefix + name)
		}
	}
	waited := base + "0" // a name that a harness finds on the service as it is
	waiter := step.StartAcquire(t, h.OpenLocker(t), waited)
	h.WaitQueued(t, waited, 1)

	all := list(t, looker, "", math.MaxInt)
	for name, lease := range leases {
		s := inspect(t, looker, name, 1)
		wantListed(t, all, s, lease)
		if s.Holder == nil || s.Holder.Token != 0 && s.Holder.Token != lease.Token() {
			t.Errorf("Inspect(%q) shows %s, want the lease with token %v", name, inWords(s), lease.Token())
		}
		if name != waited && (s.Waiting > 0 || len(s.Waiters) > 0) {
			t.Errorf("Inspect(%q) shows %s, and nobody waits for it", name, inWords(s))
		}
		if t.Failed() {
			break // one is enough
		}
	}
	wantUnheld(t, looker, base+"ax", "of a name with which others begin")
	if s := all[inspect(t, looker, waited, 0).Key]; s.Waiting == 0 || s.Waiting > 0 && len(s.Waiters) != 1 {
		t.Errorf("List shows %s of a lock for which somebody waits", inWords(s))
	}
	if listsByName(t, looker, base) {
		for _, prefix := range prefixes {
			below := list(t, looker, prefix, 0)
			for _, s := range below {
				if lease := leases[s.Name]; lease == nil || !strings.HasPrefix(s.Name, prefix) {
					t.Errorf("List(%q) shows %q (%s)", prefix, s.Name, s.Key)
				}
			}
			if len(below) != len(odd)+1 {
				t.Errorf("List(%q) shows %d locks, want %d", prefix, len(below), len(odd)+1)
			}
		}
		if none := list(t, looker, base+"//none", 0); len(none) != 0 {
			t.Errorf("List shows %v below a prefix that no lock has", none)
		}
	}
	for name, lease := range leases {
		if name != waited {
			step.Release(t, lease)
		}
	}
	step.Release(t, leases[waited])
	step.Release(t, waiter.Granted(t, step.Limit))
	for key, s := range list(t, looker, "", 0) {
		if _, known := all[key]; known && s.Holder != nil { // a minority of servers may be late
			t.Errorf("List shows %q (%s) after its release: %s", s.Name, key, inWords(s))
		}
	}
}

func wantListed(t T, all map[string]locker.Status, one locker.Status, lease locker.Lease) {
	t.Helper()
	s, found := all[one.Key]
	switch {
	case !found || s.Holder == nil:
		t.Errorf("List doesn't show the holder of %q (%s)", lease.Name(), one.Key)
	case s.Name != "" && s.Name != lease.Name():
		t.Errorf("List shows %q (%s) as %q", lease.Name(), one.Key, s.Name)
	case s.Holder.Token != 0 && s.Holder.Token != lease.Token():
		t.Errorf("List shows token %v of %q, want %v", s.Holder.Token, lease.Name(), lease.Token())
	}
}

// listUnderChurn holds more locks than a page of a service usually shows. A lock that comes and goes
// may be free by the time it is shown.
func listUnderChurn(t T, h *Harness) {
	l, looker, base := h.OpenLocker(t), h.OpenLocker(t), step.LockName(t)
	held := make(map[string]locker.Lease) // by key
	for i := range leasesAtOnce {
		lease := step.Acquire(t, l, member(base+"/held", i))
		held[inspect(t, looker, lease.Name(), 0).Key] = lease
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*step.Limit)
	defer cancel()
	var stop atomic.Bool
	fs := []func() error{func() error {
		defer stop.Store(true)
		for range h.rounds(20) {
			all, err := listed(locker.List(ctx, looker, "", 0))
			if err != nil && !errors.Is(err, errListedFree) {
				return err
			}
			for key, lease := range held {
				if all[key].Holder == nil {
					return fmt.Errorf("a list of %d locks doesn't show %q (%s), which is one of %d that are held all the time",
						len(all), lease.Name(), key, len(held))
				}
			}
		}
		return nil
	}}
	for i := range 8 {
		churner := h.OpenLocker(t)
		fs = append(fs, func() error {
			for n := 0; !stop.Load(); n++ {
				err := locker.Do(ctx, churner, fmt.Sprintf("%s/%d", base, (i+n)%16), func(context.Context, locker.Lease) error { return nil })
				if err != nil {
					return err
				}
			}
			return nil
		})
	}
	step.Race(t, fs...)
	for _, lease := range held {
		step.Release(t, lease)
	}
}

func inspectDecorated(t T, h *Harness) {
	const base = 1000
	bare, name := h.OpenLocker(t), step.LockName(t)
	prefix := step.LockName(t) + "/"
	prefixed, err := middleware.Prefix(h.Open(t), prefix)
	if err != nil {
		t.Fatalf("%v", err)
	}
	step.CloseAtEnd(t, prefixed)
	based, err := locker.TokenBase(h.Open(t), base)
	if err != nil {
		t.Fatalf("%v", err)
	}
	step.CloseAtEnd(t, based)

	below, above := step.Acquire(t, prefixed, name+"/a"), step.Acquire(t, bare, name+"/a")
	wantHolder(t, prefixed, below)
	wantHolder(t, bare, above)
	if listsByName(t, bare, name) {
		all := list(t, prefixed, "", 0)
		if len(all) != 1 || len(list(t, prefixed, name, 0)) != 1 || len(list(t, prefixed, "b", 0)) != 0 {
			t.Errorf("List shows %v below the prefix, want one lock", all)
		}
		for _, s := range all {
			if s.Name != below.Name() {
				t.Errorf("List below the prefix shows %q, want %q", s.Name, below.Name())
			}
		}
	}
	if s, own := inspect(t, based, above.Name(), 0), inspect(t, bare, above.Name(), 0); s.Holder == nil || s.Holder.Token != 0 && s.Holder.Token != own.Holder.Token+base {
		t.Errorf("Inspect on a token base shows %s, want token %v plus the base", inWords(s), above.Token())
	}
	step.Release(t, above)
	step.Release(t, below)
	lease := step.Acquire(t, based, name+"/b")
	key := wantListedKey(t, based, lease)
	if s := list(t, bare, "", 0)[key]; s.Holder != nil && s.Holder.Token != 0 && s.Holder.Token != lease.Token()-base {
		t.Errorf("List without the base shows token %v, want %v", s.Holder.Token, lease.Token()-base)
	}
	step.Release(t, lease)
}

func wantListedKey(t T, l locker.Locker, lease locker.Lease) (key string) {
	t.Helper()
	one := inspect(t, l, lease.Name(), 0)
	wantListed(t, list(t, l, "", 0), one, lease)
	return one.Key
}
