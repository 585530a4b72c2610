package driver_test

import (
	"context"
	"testing"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
)

// revised is what the backend offers to its holders.
type revised interface{ Revision() int }

type revision int

func (r revision) Revision() int { return int(r) }

// offering is a driver whose locks offer something.
type offering struct{ *fake }

type offeringLock struct {
	driver.Lock
	offer any
}

func (l offeringLock) Extension() any { return l.offer }

func (d offering) Lock(req locker.Request, lost func(error)) (driver.Lock, error) {
	lock, err := d.fake.Lock(req, lost)
	return offeringLock{lock, map[string]any{"something": revision(7), "nothing": nil}[req.Name]}, err
}

func (d offering) Renew(ctx context.Context, locks []driver.Lock, report func(int, driver.Instant, error)) {
	inner := make([]driver.Lock, len(locks))
	for i, l := range locks {
		inner[i] = l.(offeringLock).Lock
	}
	d.fake.Renew(ctx, inner, report)
}

// decorated is a lease around a lease.
type decorated struct{ locker.Lease }

func (d decorated) Unwrap() any { return d.Lease }

// natural is one, too.
type natural struct{ locker.Lease }

func (n natural) Unwrap() locker.Lease { return n.Lease }

func TestAsFindsWhatTheBackendOffers(t *testing.T) {
	f := &fake{t: t}
	l := driver.New(offering{f}, driver.Config{TTL: ttl})
	f.engine = l
	defer l.Close()
	for name, want := range map[string]bool{"something": true, "nothing": false} {
		lease := mustAcquire(t, l, name)
		for _, lease := range []locker.Lease{lease, decorated{lease}, natural{lease}, natural{decorated{natural{lease}}}} {
			c, ok := locker.As[revised](lease)
			if ok != want || ok && c.Revision() != 7 {
				t.Errorf("%s: As = %v, %v", name, c, ok)
			}
		}
		// The driver's Lock itself must not be found: it could be released without the engine's
		// knowledge.
		if _, ok := locker.As[driver.Lock](lease); ok {
			t.Errorf("%s: As finds the driver's lock", name)
		}
	}
}

func TestAsOfADriverThatOffersNothing(t *testing.T) {
	lease := mustAcquire(t, open(t, &fake{}), "name")
	if c, ok := locker.As[revised](lease); ok {
		t.Errorf("As = %v", c)
	}
	if _, ok := locker.As[driver.Lock](lease); ok {
		t.Error("As finds the driver's lock")
	}
}
