package redisbackend

import (
	"context"
	"sync"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
)

// Renew sends one request for each lock, many in a message. The answer about a place in the queue
// may be that the lock was granted: then the message was lost.
func (d *redisDriver) Renew(ctx context.Context, locks []driver.Lock, report func(int, driver.Instant, error)) {
	sent := driver.Stamp()
	reqs := make([]request, len(locks))
	for i, l := range locks {
		reqs[i] = l.(*lock).request(d.renewScript(), sent)
		reqs[i].deadlineOnly = true
	}
	d.askPatiently(ctx, reqs, func(i int, a answer) {
		report(i, sent, locks[i].(*lock).renewed(a, sent))
	})
	d.keepTokens(ctx, locks)
}

// askPatiently is the router's askAll for requests that may still be answered when ctx has ended. With
// a short TTL ctx ends soon, so that another renewal has time. But to give up a message costs its
// connection, and a server that is slow to answer may be slower still to accept a new one. So the
// message goes on, for as long as others may take, while the next renewal is sent on another
// connection: one of the two finds its way, whether the server is slow or the network has dropped a
// connection. When ctx ends, each request without an answer is reported to have none. If one comes
// later, that is reported as well.
//
// Half of the connections are left to others.
func (d *redisDriver) askPatiently(ctx context.Context, reqs []request, report func(i int, a answer)) {
	limit := min(reqs[0].ttl*3/5, messageTimeout) // until shortly before the deadline
	if until, limited := ctx.Deadline(); !limited || time.Until(until) >= limit || !d.startPatience() {
		d.router.askAll(ctx, reqs, report)
		return
	}
	var mu sync.Mutex
	reported := make([]bool, len(reqs))
	note := func(i int, a answer) {
		mu.Lock()
		again := reported[i]
		reported[i] = true
		mu.Unlock()
		if !again || a.err == nil {
			report(i, a)
		}
	}
	began, done := time.Now(), make(chan struct{})
	go func() {
		defer close(done)
		defer func() { <-d.patient }()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
		defer cancel()
		d.router.askAll(ctx, reqs, note)
	}()
	select {
	case <-done:
		return
	case <-ctx.Done():
	}
	d.router.conn.DropIdle(began)
	for i, r := range reqs {
		note(i, answer{err: d.router.conn.NameServer(ctx, locker.ErrNoAnswer, r.key)})
	}
}

// startPatience reports whether another message may outlast the renewal that it is of.
func (d *redisDriver) startPatience() bool {
	select {
	case d.patient <- struct{}{}:
		return true
	default:
		return false
	}
}
