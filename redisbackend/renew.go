package redisbackend

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
)

// Renew sends one request for each lock, many in a message, and in a Cluster now and then one for its
// last token. The answer about a place in the queue may be that the lock was granted: then the message
// was lost.
func (d *redisDriver) Renew(ctx context.Context, locks []driver.Lock, report func(int, driver.Instant, error)) {
	sent := driver.Stamp()
	reqs := make([]request, len(locks))
	for i, l := range locks {
		reqs[i] = l.(*lock).request(d.renewScript(), sent)
	}
	tokens := d.tokensDue(locks, sent)
	for _, l := range tokens {
		reqs = append(reqs, l.request(keepOneScript, sent))
	}
	for i := range reqs {
		reqs[i].deadlineOnly = true
	}
	d.askPatiently(ctx, reqs, func(i int, a answer) {
		if i < len(locks) {
			report(i, sent, locks[i].(*lock).renewed(a, sent))
		} else if a.err == nil {
			tokens[i-len(locks)].noteTokenKept(sent)
		}
	})
}

// askPatiently is the router's askAll for requests that may still be answered when ctx has ended. With
// a short TTL ctx ends soon, so that another renewal has time. But to give up a message costs its
// connection, and a server that is slow to answer may be slower still to accept a new one. So the
// answers to what was sent are waited for, for as long as others may take, while the next renewal is
// sent on another connection: one of the two finds its way, whether the server is slow or the network
// has dropped a connection. When ctx ends, each request without an answer is reported to have none. If
// one comes later, that is reported as well.
//
// Half of the connections are left to others: when the rest is used, and where the TTL is longer, nothing
// is waited for after the end of ctx.
func (d *redisDriver) askPatiently(ctx context.Context, reqs []request, report func(i int, a answer)) {
	began, limit := time.Now(), messageTimeout
	for i := range reqs {
		limit = min(limit, reqs[i].ttl*3/5) // until shortly before the deadline
	}
	width := d.reserve(min((len(reqs)+batchSize-1)/batchSize, lanesWidth))
	if until, limited := ctx.Deadline(); !limited || time.Until(until) >= limit || width == 0 {
		defer d.giveBack(width)
		d.router.askAll(ctx, reqs, max(width, 1), report)
		return
	}
	patient := slices.Clone(reqs)
	for i := range patient {
		patient[i].answerBy = began.Add(limit)
	}
	var mu sync.Mutex // held while an answer is reported, so that none is half done when this returns
	reported := make([]bool, len(reqs))
	note := func(i int, a answer) {
		mu.Lock()
		defer mu.Unlock()
		if !reported[i] || a.err == nil {
			reported[i] = true
			report(i, a)
		}
	}
	done := make(chan struct{})
	if !d.renewals.Go(func(context.Context) {
		defer close(done)
		defer d.giveBack(width)
		d.router.askAll(ctx, patient, width, note)
	}) { // the driver is closed
		defer d.giveBack(width)
		d.router.askAll(ctx, reqs, width, report)
		return
	}
	select {
	case <-done:
		return
	case <-ctx.Done():
	}
	d.router.conn.DoubtIdle(began)
	for i := range reqs {
		note(i, answer{err: d.router.conn.NameServer(ctx, locker.ErrNoAnswer, reqs[i].key)})
	}
}

// reserve reserves connections for messages of renewals, to each server: most of them, or as many as are
// left of half of the pool.
func (d *redisDriver) reserve(most int) (n int) {
	for ; n < most; n++ {
		select {
		case d.renewing <- struct{}{}:
		default:
			return n
		}
	}
	return n
}

func (d *redisDriver) giveBack(n int) {
	for range n {
		<-d.renewing
	}
}
