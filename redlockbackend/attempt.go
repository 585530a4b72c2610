package redlockbackend

import (
	"context"
	"errors"
	"sync"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/internal/redisconn"
)

var (
	errReleased = errors.New("the server has it as released already")
	errNotAsked = errors.New("it was not asked")
)

// attempt is one try to get the lock on a majority of the servers, with its own owner and its own
// token. So a late answer to one attempt can't count for another, and what stops late requests of
// one attempt doesn't stop the next.
type attempt struct {
	l     *lock
	owner string
	sent  driver.Instant // when it began: no request was sent before

	mu       sync.Mutex
	state    attemptState
	token    locker.Token   // proposed, or won
	reported driver.Instant // the base that the engine knows
	backers  servers        // what the lease is attached to
	abstain  servers        // have forgotten it, and let nobody in for a while: see base
	grants   servers        // have granted the key, and have not said since that it is gone
	shut     servers        // have said that they let nobody in: see removalState
	keyless  servers        // never had the key of this attempt, or have it no more: only a place may be left there
	on       []onServer     // by server. A slice and no array of mostServers, because every lease keeps its attempt
	release  *item          // made for the first release that notifies waiters
	errs     []error        // by server: why it could not be removed; nil: no removal has failed
	asked    servers        // their answers are still to come
	remains  servers        // something may exist there, or be on its way
	busy     servers        // a removal is being sent
	placed   servers        // they may have noted that it waits
	failed   servers        // a removal has failed since the acquisition was released, and no Release has said so yet
	released bool           // the acquisition is: places are removed as well
	breach   *locker.Breach // that a server has shown; nil: none has
}

// onServer is what an attempt knows of its lock on one server.
type onServer struct {
	agreed locker.Token   // what the server has raised the counter to
	acked  driver.Instant // when the last request was sent that sets or renews, and that it has acknowledged
	last   driver.Instant // when the last request that sets or renews had ended
}

type attemptState int8

const (
	voting attemptState = iota // answers count
	leased                     // it has won
	over                       // it has failed or is released: what is granted now is removed
)

func (l *lock) newAttempt() *attempt {
	n := len(l.d.nodes)
	a := &attempt{
		l:       l,
		owner:   driver.NewOwner(),
		token:   l.d.clock.propose(),
		sent:    driver.Stamp(),
		on:      make([]onServer, n),
		remains: allOf(n),
	}
	for i := range a.on {
		a.on[i].acked = a.sent
	}
	return a
}

// try makes an attempt. An attempt that fails leaves nothing on the servers that have answered. It
// is removed from the others as they answer. The attempt is undecided if ctx ends before.
func (l *lock) try(ctx context.Context) (*attempt, decision, answers) {
	a := l.newAttempt()
	l.add(a)
	outcome, all := a.acquire(ctx)
	if outcome == short {
		outcome, all = a.raise(ctx, all)
	}
	if outcome != won {
		a.rollBack(ctx)
	}
	return a, outcome, all
}

// acquire is the first phase: all servers are asked for the lock.
func (a *attempt) acquire(ctx context.Context) (decision, answers) {
	b := a.newBallot(acquireScript, a.token)
	b.wereSilent = a.l.d.assumeSilent(b.all)
	outcome, all := b.cast(ctx, allOf(len(b.all)))
	if outcome == won {
		a.win(b.token)
	}
	return outcome, all
}

// raise is the second phase: the servers that have granted the lock are asked to agree to a larger
// token.
func (a *attempt) raise(ctx context.Context, granted answers) (decision, answers) {
	token, _ := granted.secondPhaseToken()
	b := a.newBallot(raiseScript, token)
	var which servers
	for i, r := range granted {
		if r.isOurs() {
			which = which.with(i)
		} else {
			b.all[i] = reply{err: errNotAsked}
		}
	}
	outcome, all := b.cast(ctx, which)
	if outcome == won {
		a.win(token)
		a.l.d.clock.learn(token)
	}
	return outcome, all
}

// win is called when a majority has raised the counter to token.
func (a *attempt) win(token locker.Token) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.token, a.state, a.reported = token, leased, a.sent
	for i := range a.on {
		if a.on[i].agreed == token {
			a.backers = a.backers.with(i)
		}
	}
}

// heard processes a reply, whenever it comes. It reports whether the caller must remove what exists
// on the server, because the attempt is over by now.
func (a *attempt) heard(i int, s *redisconn.Script, r reply, token locker.Token) (unwanted bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked, a.on[i].last = a.asked.minus(i), driver.Now()
	a.noteShut(i, r)
	switch {
	case r.err != nil && s == acquireScript && redisconn.NotExecuted(r.err):
		a.remains, a.shut = a.remains.minus(i), a.shut.with(i)
	case r.err != nil:
		if s == acquireScript && a.l.ticket != 0 {
			a.placed = a.placed.with(i)
		}
	case r.verdict == granted:
		a.grants = a.grants.with(i)
	case r.verdict == raised:
		a.grants = a.grants.with(i)
		// A lease that was granted without waiting for this server is attached to it as well, if
		// the token is the same.
		a.on[i].agreed = token
		if a.state == leased && token == a.token {
			a.backers = a.backers.with(i)
		}
	case s == raiseScript: // another holder may be there by now
		a.grants = a.grants.minus(i)
	case s == acquireScript:
		a.remains = a.remains.minus(i)
		if r.verdict != held {
			break
		}
		a.keyless = a.keyless.with(i) // another holder has it
		if a.l.ticket != 0 {
			a.placed = a.placed.with(i)
		}
	}
	if a.released && a.placed.has(i) {
		a.removePlaces(servers(0).with(i))
		a.placed = a.placed.minus(i)
	}
	return a.state == over && a.claim(servers(0).with(i)) != 0
}

// confirm notes that a server has acknowledged a renewal that was sent at sent. A server that has
// dropped the lease never comes back. a.mu is held.
func (a *attempt) confirm(server int, sent driver.Instant) {
	if a.backers.has(server) {
		a.on[server].acked = max(a.on[server].acked, sent)
	}
}

// base returns the lease's base; false if no majority has the lease. a.mu is held.
//
// A server that has forgotten the lease renews it no more, but what it acknowledged before it forgot
// still counts for the time. It takes no part for the longest TTL after that, so until a TTL after its
// last acknowledgement it lets nobody else in, as if it had the lease.
func (a *attempt) base() (driver.Instant, bool) {
	if a.backers.size() < majority(len(a.on)) {
		return 0, false
	}
	var room [mostServers]driver.Instant
	acked := room[:0]
	for which := a.backers | a.abstain; which != 0; {
		acked = append(acked, a.on[which.next()].acked)
	}
	return baseOf(acked, majority(len(a.on)))
}

// isOver reports whether what is granted from now on is removed.
func (a *attempt) isOver() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.state == over
}
