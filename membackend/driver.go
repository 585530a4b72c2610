package membackend

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
)

// memDriver is the contact of one Locker with a Server: [driver.Driver] as other backends implement it, with a client
// that is simulated.
type memDriver struct {
	client *client
	leave  func() // called when the driver is closed; nil: nothing to do
}

var (
	_ driver.Driver = (*memDriver)(nil)
	_ driver.Lock   = (*lock)(nil)
	_ receiver      = (*lock)(nil)
)

// minTTL is the shortest TTL: the allowance for clocks takes 2 ms, and the machine's scheduler may take as much.
const minTTL = 5 * time.Millisecond

func (d *memDriver) Guarantees() locker.Guarantees { return Guarantees() }

func (d *memDriver) Lock(req locker.Request, lost func(error)) (driver.Lock, error) {
	if err := checkTTL(req.TTL); err != nil {
		return nil, err
	}
	l := &lock{noWait: req.NoWait, tellLost: lost, ready: make(chan struct{})}
	l.acquisition = acquisition{name: req.Name, owner: driver.NewOwner(), ttl: req.TTL, client: d.client, to: l}
	return l, nil
}

func checkTTL(ttl time.Duration) error {
	if ttl < minTTL {
		return fmt.Errorf("%w: TTL %v is shorter than %v", locker.ErrOption, ttl, minTTL)
	}
	return nil
}

// Renew is one request for all locks.
func (d *memDriver) Renew(ctx context.Context, locks []driver.Lock, report func(int, driver.Instant, error)) {
	// The service may carry the request out when this call is long over, so it keeps nothing of the caller's.
	subjects := make([]*lock, len(locks))
	limit := maxLimit
	for i := range locks {
		subjects[i] = locks[i].(*lock)
		limit = min(limit, timeLimit(subjects[i].ttl))
	}
	answers := make([]answer, len(locks))
	sent := driver.Stamp()
	_, err := d.client.call(ctx, limit, &request{renewal: true, run: func(now driver.Instant) {
		for i, l := range subjects {
			answers[i] = d.client.server.renew(&l.acquisition, sent, now)
		}
	}})
	for i, l := range subjects {
		if err != nil {
			report(i, 0, err)
			continue
		}
		switch answers[i].standing {
		case granted:
			l.granted(answers[i].token, sent) // the push may have been lost
			report(i, sent, nil)
		case queued:
			report(i, sent, nil)
		default:
			l.settle()
			report(i, 0, fmt.Errorf("%w: %w", locker.ErrLost, errGone))
		}
	}
}

// Close ends the connection.
func (d *memDriver) Close(context.Context) error {
	d.client.close()
	if d.leave != nil {
		d.leave()
	}
	return nil
}

// maxLimit and timeLimit bound a call: a lock whose renewal hangs must have time for others before its TTL is over.
const maxLimit = 2 * time.Second

func timeLimit(ttl time.Duration) time.Duration { return min(ttl/6, maxLimit) }

// lock is one acquisition.
type lock struct {
	acquisition
	noWait   bool
	tellLost func(cause error)
	conn     *conn         // on which it queues, once Acquire has answered Held
	ready    chan struct{} // closed when the grant has come while it was queued, perhaps before that answer

	mu    sync.Mutex
	asked bool // something may stand on the service, or be on its way there
	won   bool // ready is closed
	token locker.Token
	base  driver.Instant
}

// Acquire sends one request, at its first call; the second waits for the push of the grant.
func (l *lock) Acquire(ctx context.Context) (driver.Grant, error) {
	if l.conn != nil {
		return l.wait(ctx)
	}
	if ctx.Err() != nil {
		return driver.Grant{}, context.Cause(ctx)
	}
	l.mu.Lock()
	l.asked = true
	l.mu.Unlock()
	var a answer
	sent := driver.Stamp()
	r := &request{}
	r.run = func(now driver.Instant) {
		a = l.client.server.acquire(&l.acquisition, l.noWait, r.conn, sent, now)
	}
	answered, err := l.client.call(ctx, timeLimit(l.ttl), r)
	if err != nil {
		if answered { // with a refusal: nothing was carried out
			l.settle()
		}
		return driver.Grant{}, err
	}
	switch a.standing {
	case granted:
		return driver.Grant{Token: a.token, Base: sent, TTL: l.ttl}, nil
	case queued:
		l.conn = r.conn
		return driver.Grant{}, driver.ErrQueued
	case refused:
		l.settle()
		return driver.Grant{}, locker.ErrHeld
	default:
		l.settle()
		return driver.Grant{}, errGone
	}
}

func (l *lock) wait(ctx context.Context) (driver.Grant, error) {
	select {
	case <-l.ready:
	case <-l.conn.broken:
	case <-ctx.Done():
	}
	l.mu.Lock()
	won, grant := l.won, driver.Grant{Token: l.token, Base: l.base, TTL: l.ttl}
	l.mu.Unlock()
	if won { // also when the wait ended for another reason at the same time
		return grant, nil
	}
	if ctx.Err() != nil {
		return driver.Grant{}, context.Cause(ctx)
	}
	// The place went with the connection. This is no failure of the wait, which goes on with a new acquisition.
	l.tellLost(errReset)
	return driver.Grant{}, errReset
}

// granted takes in a grant that came while the acquisition was queued, by push or with a renewal, which may also bring
// what is known already. base is the refresh from which the service counts the TTL.
func (l *lock) granted(token locker.Token, base driver.Instant) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.won {
		l.base = max(l.base, base)
		return
	}
	l.won, l.token, l.base = true, token, base
	close(l.ready)
}

// lost takes in the push that says that the service has ended the lease.
func (l *lock) lost(cause error) {
	l.settle()
	l.tellLost(cause)
}

// settle notes that nothing stands, and nothing is on its way that could make something stand: the only request that
// creates was answered.
func (l *lock) settle() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked = false
}

// Release sends nothing when the service has said that nothing stands.
func (l *lock) Release(ctx context.Context) error {
	l.mu.Lock()
	asked := l.asked
	l.mu.Unlock()
	if !asked {
		return nil
	}
	_, err := l.client.call(ctx, timeLimit(l.ttl), &request{run: func(now driver.Instant) {
		l.client.server.release(&l.acquisition, now)
	}})
	if err == nil {
		l.settle()
	}
	return err
}
