package conformance

import (
	"fmt"
	"strings"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance/step"
)

const (
	aHolder = "deploy by alice, OPS-118"
	aTrace  = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
)

// punctuation is all of ASCII: quotes, escapes, separators and patterns of all languages.
const punctuation = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"

// special is a text of a length, or a little less, that has all punctuation, spaces, and characters of
// several bytes.
func special(bytes int) string {
	text := "it's " + punctuation + " "
	return text + strings.Repeat("日", (bytes-len(text)-len("%}"))/len("日")) + "%}"
}

// wantLabel waits until the holder that Inspect shows says text and trace of itself: a backend may
// write them with the first renewal. It returns what is shown then.
func wantLabel(t T, h *Harness, l locker.Locker, lease locker.Lease, text, trace string) (p locker.Party) {
	t.Helper()
	step.Eventually(t, h.ExpiryLimit(), func() error {
		if p = wantHolder(t, l, lease); p.Holder != text || p.Trace != trace {
			return fmt.Errorf("the holder says %q of itself, with the trace %q, want %q and %q", p.Holder, p.Trace, text, trace)
		}
		return nil
	})
	return p
}

func labelsStay(t T, h *Harness) {
	looker, name := h.OpenLocker(t), step.LockName(t)
	longest, shorter := special(locker.MaxHolder), special(locker.MaxHolder/2)
	lease, err := step.AcquireContext(t, locker.ContextWithTrace(t.Context(), aTrace), h.OpenLocker(t), name, h.ttl(locker.WithHolder(longest))...)
	if err != nil {
		t.Fatalf("Acquire with a holder's text of %d bytes = %v", len(longest), err)
	}
	first := wantLabel(t, h, looker, lease, longest, aTrace)

	next := h.OpenLocker(t)
	ctx := locker.ContextWithTrace(t.Context(), strings.Replace(aTrace, "-01", "-00", 1))
	waiter := step.StartAcquireContext(t, ctx, next, name, h.ttl(locker.WithHolder(shorter))...)
	h.WaitQueued(t, name, 1)
	if locker.InspectionQueue.Check(h.guarantees) == nil {
		step.Eventually(t, h.ExpiryLimit(), func() error {
			s := inspect(t, looker, name, 1)
			if len(s.Waiters) != 1 || s.Waiters[0].Holder != shorter || s.Waiters[0].Trace != locker.TraceFrom(ctx) {
				return fmt.Errorf("the answer of Inspect is %s, want a waiter that says %q of itself, and its trace", inWords(s), shorter)
			}
			return nil
		})
	}
	for range 3 {
		if err := step.Renew(t, lease); err != nil {
			t.Fatalf("Renew = %v", err)
		}
	}
	step.Pass(t, h.TTL) // and renewals in the background
	if again := wantLabel(t, h, looker, lease, longest, aTrace); !again.Asked.Equal(first.Asked) {
		t.Errorf("Asked was %v, and after renewals it is %v", first.Asked, again.Asked)
	}
	step.Release(t, lease)
	lease = waiter.Granted(t, step.Limit)
	wantLabel(t, h, looker, lease, shorter, locker.TraceFrom(ctx))
	step.Pass(t, h.TTL)
	wantLabel(t, h, looker, lease, shorter, locker.TraceFrom(ctx))
	step.Release(t, lease)

	saysNothing(t, h, looker, name)
}

// saysNothing checks that nothing is written for a holder that says nothing, neither when it is
// alone nor when it has waited.
func saysNothing(t T, h *Harness, looker locker.Locker, name string) {
	t.Helper()
	l, before := h.OpenLocker(t), time.Now().Add(-time.Second)
	ctx := locker.ContextWithTrace(t.Context(), aTrace)
	former := step.Acquire(t, h.OpenLocker(t), name, h.ttl()...)
	waiter := step.StartAcquireContext(t, ctx, l, name, h.ttl(locker.WithHolder("-"))...)
	h.WaitQueued(t, name, 1)
	step.Release(t, former)
	lease := waiter.Granted(t, step.Limit)
	step.Pass(t, h.TTL)
	wantNothingSaid(t, looker, lease, before)
	step.Release(t, lease)
	lease, err := step.AcquireContext(t, ctx, l, name, h.ttl(locker.WithHolder("-"))...)
	if err != nil {
		t.Fatalf("Acquire of a free lock = %v", err)
	}
	step.Pass(t, h.TTL)
	wantNothingSaid(t, looker, lease, before)
	step.Release(t, lease)
}

func wantNothingSaid(t T, l locker.Locker, lease locker.Lease, before time.Time) {
	t.Helper()
	p := wantHolder(t, l, lease)
	if p.Holder != "" || p.Trace != "" || !p.Asked.IsZero() && p.Asked.Before(before) {
		t.Errorf("Inspect shows %+v, and the holder says nothing of itself", p)
	}
}

// wantAsked checks when an acquisition began, between two moments.
func wantAsked(t T, p locker.Party, before, after time.Time) {
	t.Helper()
	if p.Asked.Before(before.Add(-time.Second)) || p.Asked.After(after.Add(time.Second)) {
		t.Errorf("Asked = %v, want a moment from %v to %v", p.Asked, before, after)
	}
}

// labelsApart has two leases in one Locker. The first is looked at once more when the second is shown.
func labelsApart(t T, h *Harness) {
	l, looker := h.OpenLocker(t), h.OpenLocker(t)
	one := step.Acquire(t, l, step.LockName(t), h.longTTL(locker.WithHolder("billing"))...)
	two := step.Acquire(t, l, step.LockName(t), h.longTTL(locker.WithHolder("cache warmer"))...)
	wantLabel(t, h, looker, one, "billing", "")
	wantLabel(t, h, looker, two, "cache warmer", "")
	step.Pass(t, 3*h.TTL) // and a renewal
	wantLabel(t, h, looker, one, "billing", "")
	wantLabel(t, h, looker, two, "cache warmer", "")
	step.Release(t, one)
	step.Release(t, two)
}
