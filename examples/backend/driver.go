package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
)

// New makes a Locker on the store at base, such as http://store.example:8080.
func New(base string, client *http.Client) locker.Locker {
	d := &storeDriver{base, client}
	return driver.New(d, driver.Config{TTL: 30 * time.Second, Features: locker.FeatureTTL})
}

// pollPause is the usual pause of a waiter. The longest one is 3/2 of it: see driver.HeldError.
const pollPause = 100 * time.Millisecond

type storeDriver struct {
	base   string
	client *http.Client
}

func (d *storeDriver) Guarantees() locker.Guarantees {
	return locker.Guarantees{
		Backend: "example", Scope: locker.ScopeNetwork, Tolerance: locker.ToleranceNone, Exclusion: locker.ExclusionSingleNode,
		Fencing: locker.FencingUntilDataLoss, Clocks: locker.ClocksSpeed, Order: locker.OrderNone, Waiting: locker.WaitingPolled,
		Expiry:     locker.Expiry{By: locker.ExpiryKey, TTL: true, Slack: pollPause * 3 / 2}, // a waiter has just asked when the lock expires
		Revocation: locker.RevocationRenewal, Restart: locker.RestartNothing, Inspection: locker.InspectionNone, Break: locker.BreakNone, RoundTrips: 1, Cost: locker.CostLow,
	}
}

// Lock draws an owner for this acquisition alone: a second one in the same process is another
// holder.
func (d *storeDriver) Lock(req locker.Request, _ func(error)) (driver.Lock, error) {
	return &lock{d: d, key: key{req.Name, driver.NewOwner()}, ttl: req.TTL}, nil
}

// Renew is one request for all locks. The new Base is from before that request: the store began to
// count the TTL again some time after it. Only an answer that says so ends a lease; an error leaves
// it as it was.
func (d *storeDriver) Renew(ctx context.Context, locks []driver.Lock, report func(int, driver.Instant, error)) {
	keys := make([]key, len(locks))
	for i, l := range locks {
		keys[i] = l.(*lock).key
	}
	sent := driver.Stamp()
	answers, err := d.post(ctx, "/renew", locks[0].(*lock).ttl, keys...)
	for i := range locks {
		if err == nil && answers[i] == 0 {
			report(i, 0, locker.ErrLost)
		} else {
			report(i, sent, err)
		}
	}
}

func (d *storeDriver) Close(context.Context) error {
	d.client.CloseIdleConnections()
	return nil
}

// post sends one request. It is a POST, because Go's HTTP client repeats no POST that it has
// written. After an error nobody knows whether the store has executed the request, or will.
func (d *storeDriver) post(ctx context.Context, path string, ttl time.Duration, keys ...key) ([]locker.Token, error) {
	limited, cancel := context.WithTimeout(ctx, min(ttl/6, 2*time.Second)) // far below a third of the TTL
	defer cancel()
	body, _ := json.Marshal(request{ttl, keys}) // which numbers and strings always can
	req, err := http.NewRequestWithContext(limited, http.MethodPost, d.base+path, bytes.NewReader(body))
	if err != nil {
		return nil, errors.New("the URL of the store is invalid: want one such as http://store.example:8080")
	}
	res, err := d.client.Do(req)
	switch {
	case err != nil && ctx.Err() == nil && limited.Err() != nil: // whose error would say that the caller gave up
		return nil, locker.ErrNoAnswer
	case err != nil:
		return nil, errors.Unwrap(err) // the text of a *url.Error has the URL, and perhaps a password
	}
	defer res.Body.Close()
	var answers []locker.Token
	if err = json.NewDecoder(res.Body).Decode(&answers); err != nil || len(answers) != len(keys) {
		return nil, fmt.Errorf("the store answers %s: %d answers for %d keys (%v)", res.Status, len(answers), len(keys), err) //nolint:errorlint // it may be a time limit
	}
	return answers, nil
}

// lock is one acquisition.
type lock struct {
	d     *storeDriver
	key   key
	ttl   time.Duration
	doubt bool // the store may have the key, or get it by a request whose answer is missing
}

// Acquire asks once. When the lock is held, the engine asks again in about
// AskWithin, at first earlier.
func (l *lock) Acquire(ctx context.Context) (driver.Grant, error) {
	l.doubt = true
	sent := driver.Stamp()
	answers, err := l.d.post(ctx, "/acquire", l.ttl, l.key)
	if err != nil {
		return driver.Grant{}, err
	}
	if l.doubt = answers[0] != 0; !l.doubt {
		return driver.Grant{}, &driver.HeldError{AskWithin: pollPause}
	}
	return driver.Grant{Token: answers[0], Base: sent, TTL: l.ttl}, nil
}

// Release is called until it returns nil. The store keeps the owner out from then on, so that a
// request of Acquire that is still on its way finds nothing to do.
func (l *lock) Release(ctx context.Context) error {
	if !l.doubt {
		return nil
	}
	_, err := l.d.post(ctx, "/release", l.ttl, l.key)
	return err
}
