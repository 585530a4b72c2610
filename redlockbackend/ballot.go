package redlockbackend

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/internal/redisconn"
)

// ballot is one phase of an attempt: a script that is sent to some servers at the same time, until
// their answers decide. Servers that are slower than that still answer to the attempt.
type ballot struct {
	a        *attempt
	script   *redisconn.Script
	item     *item
	token    locker.Token
	requests requests

	decided chan struct{} // closed when outcome is known

	mu         sync.Mutex
	all        answers // not changed any more when outcome is known
	wereSilent servers // nobody waits for these as long as the others can decide
	outcome    decision
}

func (a *attempt) newBallot(s *redisconn.Script, token locker.Token) *ballot {
	return &ballot{
		a: a, script: s, token: token, item: newItem(a.l.key, a.owner, token, a.l.ttl, a.l.ticket, a.l.said),
		decided: make(chan struct{}), all: make(answers, len(a.on)),
	}
}

// assumeSilent fills in the answers before any has come: a server that was silent the last time is
// assumed to be silent again. It returns these servers: nobody waits for them as long as the others
// can decide. If the others are no majority, nothing is assumed: this client was cut off from most
// servers, and may reach them again.
func (d *redlock) assumeSilent(all answers) (wereSilent servers) {
	for i, n := range d.nodes {
		if n.silent.Load() {
			all[i].err, wereSilent = locker.ErrNoAnswer, wereSilent.with(i)
		}
	}
	if all.outstanding() < majority(len(all)) {
		clear(all)
		wereSilent = 0
	}
	return wereSilent
}

// cast asks some servers, and waits until their answers decide, or ctx ends. A server that doesn't
// answer counts as failed when its time is up.
//
//nolint:contextcheck // what was sent is not given up: its outcome is worth more than a moment
func (b *ballot) cast(ctx context.Context, which servers) (decision, answers) {
	a := b.a
	a.mu.Lock()
	a.asked |= which
	a.mu.Unlock()
	b.requests.begin(a.l.d.timeoutFor(a.l.ttl), which)
	before := a.l.d.trailing.get(a.l.key)
	for which != 0 {
		if i := which.next(); before == nil || !before.follow(b, i) {
			a.l.d.workers.run(b, i)
		}
	}
	select {
	case <-b.decided:
	case <-ctx.Done():
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.outcome == undecided {
		b.outcome = abandoned
	}
	return b.outcome, b.all
}

// run asks server i, also if the others have decided by now: a waiter needs a place on each.
func (b *ballot) run(i int) { b.answered(i, b.a.l.d.nodes[i].ask(b.requests.ctx, b.script, b.item)) }

// answered processes the answer of server i.
func (b *ballot) answered(i int, r reply) {
	a := b.a
	b.requests.done()
	if r.verdict == raised {
		r.counter = b.token
	}
	unwanted := a.heard(i, b.script, r, b.token)
	b.count(i, r)
	if unwanted {
		a.newRemoval(servers(0).with(i)).run(i)
		return
	}
	a.l.ended(i)
}

// count takes an answer into account.
func (b *ballot) count(i int, r reply) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.outcome != undecided {
		return
	}
	b.all[i], b.wereSilent = r, b.wereSilent.minus(i)
	if b.outcome = b.decide(); b.outcome != undecided {
		close(b.decided)
	}
}

func (b *ballot) decide() decision {
	if b.script == raiseScript {
		return b.all.afterRaise()
	}
	outcome := b.all.afterAcquire()
	// A failure, and "held" to a caller that doesn't ask again, is not returned before the servers
	// that were silent had their time as well.
	if b.wereSilent != 0 && (outcome == failed || outcome == lockHeld && b.a.l.ticket == 0) {
		for b.wereSilent != 0 {
			b.all[b.wereSilent.next()] = reply{}
		}
		outcome = b.all.afterAcquire()
	}
	return outcome
}

// requests are sent to some servers at the same time. They end within the time that a server has.
// Their context isn't a caller's: a caller that gives up must not leave something on the servers
// that nobody has looked at.
type requests struct {
	ctx    context.Context //nolint:containedctx // of the requests
	cancel context.CancelFunc
	open   atomic.Int32  // how many have not ended
	ended  chan struct{} // closed when all have ended; nil: nobody waits for that
}

func (r *requests) begin(limit time.Duration, which servers) {
	r.ctx, r.cancel = context.WithTimeout(context.Background(), limit)
	r.open.Store(int32(which.size()))
}

// done is called when one of the requests has ended.
func (r *requests) done() {
	if r.open.Add(-1) == 0 {
		r.cancel()
		if r.ended != nil {
			close(r.ended)
		}
	}
}
