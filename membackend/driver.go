package membackend

import (
	"context"
	"sync"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/driver/kit"
)

// memDriver implements [driver.Driver] as other backends do, with a simulated client.
type memDriver struct {
	client *client
	leave  func() // called when the driver is closed; nil: nothing to do
}

var (
	_ driver.Driver = (*memDriver)(nil)
	_ driver.Lock   = (*lock)(nil)
	_ receiver      = (*lock)(nil)
)

// ttls has the shortest TTL: the allowance for clocks takes 2 ms, and the machine's scheduler may
// take as long.
var ttls = kit.TTLBounds{Min: 5 * time.Millisecond}

func (d *memDriver) Guarantees() locker.Guarantees { return Guarantees() }

func (d *memDriver) Lock(req locker.Request, lost func(error)) (driver.Lock, error) {
	if err := ttls.Check(req.TTL); err != nil {
		return nil, err
	}
	l := &lock{noWait: req.NoWait, reportLost: lost, ready: make(chan struct{})}
	l.acquisition = acquisition{
		name: req.Name, slot: req.Slot, owner: driver.NewOwner(), ttl: req.TTL, label: driver.LabelOf(req), client: d.client, to: l,
	}
	return l, nil
}

// Renew is one request for all locks.
func (d *memDriver) Renew(ctx context.Context, locks []driver.Lock, report func(int, driver.Instant, error)) {
	// The service may execute the request long after this call, so the request refers to nothing of
	// the caller's.
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
		switch answers[i].state {
		case granted:
			l.granted(answers[i].token, sent) // the push may have been lost
			report(i, sent, nil)
		case queued:
			report(i, sent, nil)
		default:
			report(i, 0, l.over(answers[i]))
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

// maxLimit and timeLimit bound a call, so that a renewal without an answer leaves time for others
// before the TTL is over.
const maxLimit = 2 * time.Second

func timeLimit(ttl time.Duration) time.Duration { return min(ttl/6, maxLimit) }

// lock is one acquisition.
type lock struct {
	acquisition
	noWait     bool
	reportLost func(cause error)
	conn       *conn         // on which it is queued, once Acquire has returned ErrQueued
	ready      chan struct{} // closed when a queued acquisition is granted

	mu       sync.Mutex
	mayExist bool // something may exist on the service, or be on its way there
	won      bool // ready is closed
	token    locker.Token
	base     driver.Instant
}

// Acquire sends one request, with its first call. The second call waits until the grant is pushed.
func (l *lock) Acquire(ctx context.Context) (driver.Grant, error) {
	if l.conn != nil {
		return l.wait(ctx)
	}
	if ctx.Err() != nil {
		return driver.Grant{}, context.Cause(ctx)
	}
	l.mu.Lock()
	l.mayExist = true
	l.mu.Unlock()
	var a answer
	sent := driver.Stamp()
	r := &request{}
	r.run = func(now driver.Instant) {
		a = l.client.server.acquire(&l.acquisition, l.noWait, r.conn, sent, now)
	}
	answered, err := l.client.call(ctx, timeLimit(l.ttl), r)
	if err != nil {
		if answered { // with an error: the request was not executed
			l.clearMayExist()
		}
		return driver.Grant{}, err
	}
	switch a.state {
	case granted:
		return driver.Grant{Token: a.token, Base: sent, TTL: l.ttl}, nil
	case queued:
		l.conn = r.conn
		return driver.Grant{}, driver.ErrQueued
	case refused:
		l.clearMayExist()
		return driver.Grant{}, locker.ErrHeld
	default: // the service has executed this request before, and the lease has ended since
		l.reportLost(l.over(a))
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
	// The place in the queue ended with the connection. That is no reason for the wait to fail: it
	// goes on with a new acquisition.
	l.reportLost(errReset)
	return driver.Grant{}, errReset
}

// granted notes a grant that came while the acquisition was queued, by a push or in the answer to a
// renewal, which may also repeat a known grant. base is the stamp of the refresh from which the
// service counts the TTL.
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

// lost processes the push of a service that has ended the lease.
func (l *lock) lost(cause error) {
	l.clearMayExist()
	l.reportLost(cause)
}

// clearMayExist notes that nothing exists and nothing on its way can create anything: the only
// request that creates was answered.
func (l *lock) clearMayExist() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mayExist = false
}

// Release sends nothing when the service has said that nothing exists.
func (l *lock) Release(ctx context.Context) error {
	l.mu.Lock()
	mayExist := l.mayExist
	l.mu.Unlock()
	if !mayExist {
		return nil
	}
	_, err := l.client.call(ctx, timeLimit(l.ttl), &request{run: func(now driver.Instant) {
		l.client.server.release(&l.acquisition, now)
	}})
	if err == nil {
		l.clearMayExist()
	}
	return err
}
