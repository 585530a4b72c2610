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

// askRound is the router's askAll, with several messages at a time to each server if there are many requests.
func (d *redisDriver) askRound(ctx context.Context, reqs []request, report func(i int, a answer)) {
	p := d.router.partsOf(ctx, reqs)
	width := 1
	for width < min(p.messages(), lanesWidth) && occupy(d.furtherMessages) {
		width++
	}
	defer func() {
		for range width - 1 {
			<-d.furtherMessages
		}
	}()
	d.router.askAll(ctx, reqs, p, width, report)
}

// occupy puts a value into a channel if there is room.
func occupy(places chan struct{}) bool {
	select {
	case places <- struct{}{}:
		return true
	default:
		return false
	}
}

// askPatiently is askRound for requests that may still be answered when ctx has ended. With a short TTL
// ctx ends soon, so that another renewal has time. But if a message is given up, its connection is lost,
// and a server that answers slowly may accept a new one even more slowly. So the answers to what was sent
// are waited for as long as with a long TTL, while the next renewal is sent on another connection. One of
// the two succeeds, whether the server is slow or the network has dropped a connection. When ctx ends,
// each request without an answer is reported to have none. An answer that comes later is reported, too.
//
// Where as many such rounds are under way as may be, and where ctx gives as much time, this is askRound.
func (d *redisDriver) askPatiently(ctx context.Context, reqs []request, report func(i int, a answer)) {
	began, limit := time.Now(), messageTimeout
	for i := range reqs {
		limit = min(limit, reqs[i].ttl*3/5) // until shortly before the deadline
	}
	if until, limited := ctx.Deadline(); !limited || time.Until(until) >= limit {
		d.askRound(ctx, reqs, report)
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
	if !d.startPatience(func() {
		defer close(done)
		d.askRound(ctx, patient, note)
	}) {
		d.askRound(ctx, reqs, report)
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

// startPatience calls ask in a goroutine, unless too many are under way or the driver is closed.
func (d *redisDriver) startPatience(ask func()) bool {
	if !occupy(d.patientRounds) {
		return false
	}
	started := d.renewals.Go(func(context.Context) {
		defer func() { <-d.patientRounds }()
		ask()
	})
	if !started {
		<-d.patientRounds
	}
	return started
}
