package conformance

import (
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance/step"
)

var manifestCases = []Case{
	{ID: "M1", Name: "every-guarantee-is-stated", Run: stated,
		Why: "a field that is left at zero promises nothing, and a reader that compares backends " +
			"can't tell that from a mistake; of two fields that exclude each other one is wrong"},
	{ID: "M2", Name: "guarantees-are-the-same-everywhere", Run: unchanging,
		Why: "a requirement is checked once, when a Locker is opened, and the program relies on " +
			"it while it uses the Locker"},
	{ID: "M3", Name: "round-trips-are-counted", Run: roundTrips, Needs: network{},
		Hooks: []Hook{HookLinked},
		Why: "far from its service a program waits that many times for an answer before it has a " +
			"lock that is free"},
}

// network requires that a network is involved.
type network struct{}

func (network) Check(g locker.Guarantees) error {
	if g.RoundTrips > 0 {
		return nil
	}
	return errors.New("an acquisition must take round trips, and no network is involved")
}

// mayBeZero are the fields in which zero has a meaning: no network is involved, and the backend
// promises what it usually promises.
var mayBeZero = map[string]bool{"RoundTrips": true, "Because": true}

func stated(t T, h *Harness) {
	g := h.OpenLocker(t).Guarantees()
	v := reflect.ValueOf(g)
	for i := range v.NumField() {
		field := v.Type().Field(i).Name
		word, _ := v.Field(i).Interface().(fmt.Stringer)
		switch {
		case v.Field(i).IsZero() && !mayBeZero[field]:
			t.Errorf("Guarantees.%s is not stated", field)
		case word != nil && word.String() == (locker.Scope(-1)).String():
			t.Errorf("Guarantees.%s has a value that has no name", field)
		}
	}
	if g.Expiry.By == 0 {
		t.Errorf("Guarantees.Expiry.By is not stated: what frees the lock of a dead holder?")
	}
	if g.Expiry.Slack < 0 {
		t.Errorf("Guarantees.Expiry.Slack = %v: it can't be earlier than the TTL", g.Expiry.Slack)
	}
	if g.Expiry.TTL != (h.TTL > 0) {
		t.Errorf("Harness.TTL is %v, and what ends a lease is: %v", h.TTL, g.Expiry)
	}
	for _, pair := range contradictions(g) {
		if pair.met {
			t.Errorf("Guarantees contradict themselves: %s", pair.what)
		}
	}
}

// contradiction is a pair of guarantees that no backend can have at the same time.
type contradiction struct {
	met  bool
	what string
}

func contradictions(g locker.Guarantees) []contradiction {
	oneNode := g.Exclusion == locker.ExclusionSingleNode || g.Exclusion == locker.ExclusionKernel
	return []contradiction{
		{g.Restart == locker.RestartTokens && g.Fencing == locker.FencingNone,
			"RestartTokens says that a restart leaves the tokens, and with FencingNone there are none that fence"},
		{g.Restart == locker.RestartNothing && g.Fencing == locker.FencingDurable,
			"RestartNothing says that tokens go on by the clock, and FencingDurable that they need none"},
		{g.Expiry.TTL && g.Clocks == locker.ClocksNone,
			"leases end by a TTL, which is counted by clocks: ClocksSpeed is the most that can be said"},
		{g.Tolerance == locker.ToleranceMinority && oneNode,
			fmt.Sprintf("exclusion depends on one node (%v), and ToleranceMinority needs several servers", g.Exclusion)},
		{g.Tolerance == locker.ToleranceFailover && g.Exclusion == locker.ExclusionKernel,
			"exclusion depends on the kernel of one machine, and ToleranceFailover needs a second one"},
		{g.RoundTrips == 0 && g.Scope == locker.ScopeNetwork,
			"ScopeNetwork says that processes reach the service over a network, and RoundTrips 0 that there is none"},
	}
}

// roundTrips delays replies: the fastest acquisition has waited for one reply in each round trip.
func roundTrips(t T, h *Harness) {
	const late, least, most = 100 * time.Millisecond, 5, 25
	l, link := h.OpenLinked(t)
	name := step.LockName(t)
	for range 2 {
		step.WantFree(t, l, name) // and connects
	}
	link.Delay(0, late)
	tries, fastest := 0, step.Limit
	for tries < least || tries < most && int(fastest/late) > h.guarantees.RoundTrips { // a busy machine takes longer, too
		tries++
		began := time.Now()
		lease := step.Acquire(t, l, name)
		fastest = min(fastest, time.Since(began))
		step.Release(t, lease)
	}
	if n := int(fastest / late); n != h.guarantees.RoundTrips {
		t.Errorf("with replies that come %v late the fastest of %d acquisitions took %v: that is %d round trips, "+
			"and Guarantees.RoundTrips is %d", late, tries, fastest, n, h.guarantees.RoundTrips)
	}
}

func unchanging(t T, h *Harness) {
	l := h.OpenLocker(t)
	before := l.Guarantees()
	step.WantFree(t, l, step.LockName(t))
	if after := l.Guarantees(); after != before {
		t.Errorf("Guarantees have changed with the first acquisition from\n%v to\n%v", before, after)
	}
	if other := h.OpenLocker(t).Guarantees(); other != before {
		t.Errorf("another Locker promises\n%v, and the first one\n%v", other, before)
	}
}
