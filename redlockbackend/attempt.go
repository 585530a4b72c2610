package redlockbackend

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/driver/kit"
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

	// Every lease keeps its attempt, so the slices have room for the servers that exist, and not
	// for the most that can exist.
	mu       sync.Mutex
	state    attemptState
	token    locker.Token     // proposed, or won
	reported driver.Instant   // the base that the engine knows
	backers  backers          // what the lease is attached to
	agreed   []locker.Token   // by server: what it has raised the counter to
	last     []driver.Instant // by server: when the last request that sets or renews had ended
	errs     []error          // by server: why it could not be removed; nil: no removal has failed
	asked    servers          // their answers are still to come
	remains  servers          // something may exist there, or be on its way
	busy     servers          // a removal is being sent
	placed   servers          // they may have noted that it waits
}

type attemptState int

const (
	voting   attemptState = iota // answers count
	leased                       // it has won
	rejected                     // it has failed: what is granted now is removed
)

func (l *lock) newAttempt() *attempt {
	n := len(l.d.nodes)
	instants := make([]driver.Instant, 2*n)
	a := &attempt{
		l:       l,
		owner:   driver.NewOwner(),
		token:   l.d.clock.propose(),
		sent:    driver.Stamp(),
		backers: backers{total: n, sent: instants[:n:n]},
		agreed:  make([]locker.Token, n),
		last:    instants[n:],
		remains: allOf(n),
	}
	for i := range l.d.nodes {
		a.backers.sent[i] = a.sent
	}
	return a
}

// try makes an attempt. An attempt that fails leaves nothing on the servers that have answered. It
// is removed from the others as they answer.
func (l *lock) try() (*attempt, decision, answers) {
	a := l.newAttempt()
	l.add(a)
	outcome, all := a.acquire()
	if outcome == short {
		outcome, all = a.raise(all)
	}
	if outcome != won {
		a.rollBack()
	}
	return a, outcome, all
}

// acquire is the first phase: all servers are asked for the lock.
func (a *attempt) acquire() (decision, answers) {
	all, wereSilent := a.l.d.expect()
	token, outcome := a.token, undecided
	for coming := a.ask(acquireScript, allOf(len(all)), token); outcome == undecided; {
		r := <-coming
		all[r.i], wereSilent = r.reply, wereSilent.minus(r.i)
		outcome = all.afterAcquire()
		// A failure, and "held" to a caller that doesn't ask again, is not returned before the
		// servers that were silent had their time as well.
		if wereSilent != 0 && (outcome == failed || outcome == lockHeld && a.l.ticket == 0) {
			for wereSilent != 0 {
				all[wereSilent.next()] = reply{}
			}
			outcome = all.afterAcquire()
		}
	}
	if outcome == won {
		a.win(token)
	}
	return outcome, all
}

// expect returns the answers before any has come, and which servers were silent the last time:
// nobody waits for those as long as the others can decide. If the others are no majority, all
// servers have been cut off, and may be back by now.
func (d *redlock) expect() (all answers, wereSilent servers) {
	all = make(answers, len(d.nodes))
	for i, n := range d.nodes {
		if n.silent.Load() {
			all[i].err, wereSilent = kit.ErrNoAnswer, wereSilent.with(i)
		}
	}
	if all.outstanding() < majority(len(all)) {
		clear(all)
		wereSilent = 0
	}
	return all, wereSilent
}

// raise is the second phase: the servers that have granted the lock are asked to agree to a larger
// token.
func (a *attempt) raise(granted answers) (decision, answers) {
	var which servers
	all := make(answers, len(granted))
	for i, r := range granted {
		if r.isOurs() {
			which = which.with(i)
		} else {
			all[i] = reply{err: errNotAsked}
		}
	}
	token, _ := granted.secondPhaseToken()
	outcome := undecided
	for coming := a.ask(raiseScript, which, token); outcome == undecided; outcome = all.afterRaise() {
		r := <-coming
		all[r.i] = r.reply
	}
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
	for i := range a.backers.total {
		if a.agreed[i] == token {
			a.backers.set = a.backers.set.with(i)
		}
	}
}

// serverReply is what server i says.
type serverReply struct {
	i int
	reply
}

// ask sends a script to some servers, all at the same time, and returns where the replies come. A
// server that doesn't answer counts as failed when its time is up, so all goroutines end by then.
func (a *attempt) ask(s *redisconn.Script, which servers, token locker.Token) <-chan serverReply {
	replies := make(chan serverReply, which.size())
	it := item{key: a.l.key, owner: a.owner, token: token, ttl: a.l.ttl, ticket: a.l.ticket}
	a.mu.Lock()
	a.asked |= which
	a.mu.Unlock()
	a.each(which, func(ctx context.Context, i int) {
		r := a.l.d.nodes[i].ask(ctx, s, it)
		if r.verdict == raised {
			r.counter = token
		}
		unwanted := a.heard(i, s, r, token)
		replies <- serverReply{i, r}
		if unwanted {
			a.each(servers(0).with(i), a.remove) //nolint:contextcheck // see each
		}
	})
	return replies
}

// each does something with some servers, all at the same time. Its goroutines end within the time
// that a server has. They have no caller's context, because a caller that gives up must not leave
// something on the servers that nobody has looked at.
//
//nolint:contextcheck // for that reason
func (a *attempt) each(which servers, do func(context.Context, int)) {
	ctx, cancel := context.WithTimeout(context.Background(), a.l.d.timeoutFor(a.l.ttl))
	done := countdown{end: cancel}
	done.left.Store(int32(which.size()))
	for which != 0 {
		i := which.next()
		a.l.d.spawn(func() {
			defer done.one()
			do(ctx, i)
		})
	}
}

// countdown calls end when as many as left are done.
type countdown struct {
	left atomic.Int32
	end  func()
}

func (c *countdown) one() {
	if c.left.Add(-1) == 0 {
		c.end()
	}
}

// heard processes a reply, whenever it comes. It reports whether what exists on the server is to be
// removed, because the attempt has failed meanwhile.
func (a *attempt) heard(i int, s *redisconn.Script, r reply, token locker.Token) (unwanted bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked, a.last[i] = a.asked.minus(i), driver.Now()
	switch {
	case r.err != nil:
		if s == acquireScript && redisconn.NotExecuted(r.err) {
			a.remains = a.remains.minus(i)
		}
	case r.verdict == raised:
		// A lease that was granted without waiting for this server is attached to it as well, if
		// the token is the same.
		a.agreed[i] = token
		if a.state == leased && token == a.token {
			a.backers.set = a.backers.set.with(i)
		}
	case r.verdict != granted && s == acquireScript:
		a.remains = a.remains.minus(i)
		if r.verdict == held && a.l.ticket != 0 {
			a.placed = a.placed.with(i)
		}
	}
	return a.state == rejected && a.remains.has(i)
}
