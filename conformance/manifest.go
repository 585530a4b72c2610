package conformance

import (
	"fmt"
	"reflect"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance/step"
)

var manifestCases = []Case{
	{ID: "M1", Name: "every-guarantee-is-stated", Run: stated,
		Why: "a field that is left at zero promises nothing, and a reader that compares backends " +
			"can't tell that from a mistake"},
	{ID: "M2", Name: "guarantees-are-the-same-everywhere", Run: unchanging,
		Why: "a requirement is checked once, when a Locker is opened, and the program relies on " +
			"it while it uses the Locker"},
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
