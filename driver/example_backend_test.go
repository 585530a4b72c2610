package driver_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
)

// store is the service: keys with an owner and a time to live. Each method is one request.
type store struct {
	mu       sync.Mutex
	keys     map[string]record
	released map[string]bool // owners that may not come back: a late request of theirs does nothing
	last     locker.Token
}

type record struct {
	owner   string
	expires time.Time
}

func (s *store) acquire(name, owner string, ttl time.Duration) (locker.Token, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Now().Before(s.keys[name].expires) || s.released[owner] {
		return 0, false
	}
	s.last = max(s.last+1, locker.Token(time.Now().UnixMicro())) // also larger than a token of a store that was lost
	s.keys[name] = record{owner, time.Now().Add(ttl)}
	return s.last, true
}

// renew doesn't create: a key that has expired may have been another holder's since.
func (s *store) renew(name, owner string, ttl time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	held := s.keys[name].owner == owner && time.Now().Before(s.keys[name].expires)
	if held {
		s.keys[name] = record{owner, time.Now().Add(ttl)}
	}
	return held
}

func (s *store) release(name, owner string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.released[owner] = true
	if s.keys[name].owner == owner {
		delete(s.keys, name)
	}
}

// pollPause is the usual pause of a waiter. The longest one is 3/2 of it: see driver.HeldError.
const pollPause = 50 * time.Millisecond

// pollingDriver is the Driver: what one Locker knows of the store.
type pollingDriver struct{ store *store }

func (d pollingDriver) Guarantees() locker.Guarantees {
	return locker.Guarantees{
		Backend: "example", Scope: locker.ScopeProcess, Exclusion: locker.ExclusionSingleNode, Tolerance: locker.ToleranceNone,
		Fencing: locker.FencingUntilDataLoss, Clocks: locker.ClocksSpeed, Order: locker.OrderNone, Waiting: locker.WaitingPolled,
		Expiry:     locker.Expiry{By: locker.ExpiryKey, TTL: true, Slack: pollPause * 3 / 2}, // a waiter has just asked when the lock expires
		Revocation: locker.RevocationRenewal, Restart: locker.RestartNothing, Inspection: locker.InspectionNone,
		Break: locker.BreakNone, Cost: locker.CostNone,
	}
}

// Lock draws an owner for this acquisition, and sends nothing.
func (d pollingDriver) Lock(req locker.Request, _ func(error)) (driver.Lock, error) {
	return &acquisition{store: d.store, name: req.Name, owner: driver.NewOwner(), ttl: req.TTL}, nil
}

// Renew reports an error that matches ErrLost where the store says that the key isn't this owner's.
func (d pollingDriver) Renew(_ context.Context, locks []driver.Lock, report func(int, driver.Instant, error)) {
	for i, l := range locks {
		a := l.(*acquisition)
		sent := driver.Stamp() // before the request, because the store counts the TTL from its arrival
		if !d.store.renew(a.name, a.owner, a.ttl) {
			report(i, 0, locker.ErrLost)
			continue
		}
		report(i, sent, nil)
	}
}

func (d pollingDriver) Close(context.Context) error { return nil }

type acquisition struct {
	store       *store
	name, owner string
	ttl         time.Duration
}

// Acquire asks once. The engine asks again while the lock is held.
func (a *acquisition) Acquire(context.Context) (driver.Grant, error) {
	sent := driver.Stamp()
	token, ok := a.store.acquire(a.name, a.owner, a.ttl)
	if !ok {
		return driver.Grant{}, &driver.HeldError{AskWithin: pollPause}
	}
	return driver.Grant{Token: token, Base: sent, TTL: a.ttl}, nil
}

// Release returns nil only when nothing of this acquisition is left, nor can be created by a request
// under way.
func (a *acquisition) Release(context.Context) error {
	a.store.release(a.name, a.owner)
	return nil
}

// A whole backend. Its store is in this process, so that its requests can't fail; examples/backend
// has one that is reached over HTTP, and passes the conformance suite. New makes a Locker of the
// Driver: waiting, renewal, deadlines, loss and Close are the engine's.
func Example() {
	ctx := context.Background()
	s := &store{keys: make(map[string]record), released: make(map[string]bool)}
	l := driver.New(pollingDriver{s}, driver.Config{TTL: 30 * time.Second, Features: locker.FeatureTTL, ObeysContext: true})
	defer l.Close()

	lease, err := l.Acquire(ctx, "invoices/42")
	fmt.Println("acquired:", err)
	_, err = locker.TryAcquire(ctx, l, "invoices/42")
	fmt.Println("held:", errors.Is(err, locker.ErrHeld))
	fmt.Println("renewed:", lease.Renew(ctx))
	fmt.Println("released:", lease.Release(ctx))

	err = locker.Do(ctx, l, "invoices/42", func(_ context.Context, next locker.Lease) error {
		fmt.Println("a larger token:", next.Token() > lease.Token())
		return nil
	})
	fmt.Println(err)
	// Output:
	// acquired: <nil>
	// held: true
	// renewed: <nil>
	// released: <nil>
	// a larger token: true
	// <nil>
}
