package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/driver/kit"
)

const backend = "tcpexample"

// longestWait is how long the server may keep a waiter without an answer. If the message is lost
// that the lock is free, the waiter finds that out so much later.
const longestWait = time.Second

var bounds = kit.TTLBounds{Min: 100 * time.Millisecond}

// New makes a Locker on the server at addr. It connects with the first request.
func New(addr string, dial dialFunc, ttl time.Duration) locker.Locker {
	d := &tcpDriver{newClient(addr, dial)}
	// client.do returns at once when its context ends: hence ObeysContext.
	return driver.New(d, driver.Config{TTL: ttl, Features: locker.FeatureTTL, ObeysContext: true})
}

type tcpDriver struct{ client *client }

func (d *tcpDriver) Guarantees() locker.Guarantees {
	return locker.Guarantees{
		Backend: backend, Scope: locker.ScopeNetwork, Tolerance: locker.ToleranceNone, Exclusion: locker.ExclusionSingleNode,
		Fencing: locker.FencingUntilDataLoss, Clocks: locker.ClocksSpeed, Order: locker.OrderNone, Waiting: locker.WaitingNotify,
		Expiry:     locker.Expiry{By: locker.ExpiryKey, TTL: true, Slack: longestWait},
		Revocation: locker.RevocationRenewal, Restart: locker.RestartNothing, Inspection: locker.InspectionNone, Break: locker.BreakNone, RoundTrips: 1, Cost: locker.CostLow,
	}
}

// Lock draws an owner for this acquisition alone: a second one in the same process is another
// holder.
func (d *tcpDriver) Lock(req locker.Request, _ func(error)) (driver.Lock, error) {
	if err := bounds.Check(req.TTL); err != nil {
		return nil, err
	}
	return &lock{d: d, key: key{req.Name, driver.NewOwner()}, ttl: req.TTL}, nil
}

// Renew is one request for all locks. The new Base is from before that request: the server began to
// count the TTL again some time after it. Only an answer that says so ends a lease; an error leaves
// it as it was. A lock that waits has nothing on the server yet.
func (d *tcpDriver) Renew(ctx context.Context, locks []driver.Lock, report func(int, driver.Instant, error)) {
	var keys []key
	var asked []int
	for i, l := range locks {
		if l := l.(*lock); l.granted.Load() {
			keys, asked = append(keys, l.key), append(asked, i)
		} else {
			report(i, driver.Stamp(), nil)
		}
	}
	if len(keys) == 0 {
		return
	}
	a, err := d.request(ctx, request{Op: "renew", TTL: locks[0].(*lock).ttl, Keys: keys})
	for n, i := range asked {
		if err == nil && a.Numbers[n] == 0 {
			report(i, 0, locker.ErrLost)
		} else {
			report(i, a.sent, err)
		}
	}
}

func (d *tcpDriver) Close(ctx context.Context) error { return d.client.close(ctx) }

// requestLimit is far below a third of the TTL: when a renewal fails, there is time for another
// one.
func requestLimit(ttl time.Duration) time.Duration { return min(ttl/6, 2*time.Second) }

// request sends a request whose answer comes at once, with a number for each key.
func (d *tcpDriver) request(ctx context.Context, r request) (answer, error) {
	a, err := d.client.do(ctx, requestLimit(r.TTL), r)
	if err == nil && len(a.Numbers) != len(r.Keys) {
		err = fmt.Errorf("the server answers %d numbers for %d keys", len(a.Numbers), len(r.Keys))
	}
	return a, err
}

// lock is one acquisition.
type lock struct {
	d       *tcpDriver
	key     key
	ttl     time.Duration
	granted atomic.Bool // for Renew, which may overlap Acquire

	queued bool // Acquire is to wait first
	doubt  bool // the server may have the key
	late   bool // a request to acquire may still arrive
}

// Acquire asks once. When the lock is held, the next call waits until the server says that it may
// be free, and then asks again. A wait that fails was only a hint that is missing: what the server
// answers to the question after it counts.
func (l *lock) Acquire(ctx context.Context) (driver.Grant, error) {
	if l.queued {
		_, _ = l.d.client.do(ctx, longestWait+requestLimit(l.ttl), request{Op: "wait", TTL: longestWait, Keys: []key{l.key}})
		if ctx.Err() != nil {
			return driver.Grant{}, context.Cause(ctx) // without a request that could be granted to nobody
		}
	}
	late := l.late
	l.doubt, l.late = true, true
	a, err := l.d.request(ctx, request{Op: "acquire", TTL: l.ttl, Keys: []key{l.key}})
	if err != nil {
		return driver.Grant{}, err
	}
	l.late = late || a.resent
	if a.Numbers[0] == 0 {
		l.doubt, l.queued = l.late, true
		return driver.Grant{}, driver.ErrQueued
	}
	l.granted.Store(true)
	return driver.Grant{Token: a.Numbers[0], Base: a.sent, TTL: l.ttl}, nil
}

// Release is called until it returns nil.
func (l *lock) Release(ctx context.Context) error {
	if !l.doubt {
		return nil
	}
	_, err := l.d.request(ctx, request{Op: "release", TTL: l.ttl, Late: l.late, Keys: []key{l.key}})
	return err
}
