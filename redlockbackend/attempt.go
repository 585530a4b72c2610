package redlockbackend

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/internal/redisconn"
)

// attempt is one try to get the lock on a majority of the servers, under an owner and with a token of its own: so a late
// answer to one attempt can't count for another, and what stops late requests of the one doesn't stop the next.
type attempt struct {
	l     *lock
	owner string
	sent  driver.Instant // when it began: no request was sent before

	// Every lease keeps its attempt, so the slices have room for the servers that there are, and not for the most.
	mu      sync.Mutex
	token   locker.Token     // proposed, or won
	granted bool             // it has won
	over    bool             // it has failed: what is answered now is removed
	given   driver.Instant   // the base that the engine knows
	backing backing          // what the lease is attached to
	agreed  []locker.Token   // by server: what it has raised the counter to
	last    []driver.Instant // by server: when the last request that sets or renews had ended
	errs    []error          // by server: why it could not be removed; nil: no removal has failed
	asked   servers          // their answers are still to come
	left    servers          // something may stand there, or be on its way
	busy    servers          // a removal is under way
	placed  servers          // they may have noted that it waits
}

func (l *lock) newAttempt() *attempt {
	n := len(l.d.nodes)
	instants := make([]driver.Instant, 2*n)
	a := &attempt{
		l:       l,
		owner:   driver.NewOwner(),
		token:   l.d.clock.propose(),
		sent:    driver.Stamp(),
		backing: backing{servers: n, stamps: instants[:n:n]},
		agreed:  make([]locker.Token, n),
		last:    instants[n:],
		left:    allOf(n),
	}
	for i := range l.d.nodes {
		a.backing.stamps[i] = a.sent
	}
	return a
}

// try makes an attempt. One that fails leaves nothing on the servers that have answered; from the others it is removed as
// they answer.
func (l *lock) try() (*attempt, decision, tally) {
	a := l.newAttempt()
	l.add(a)
	outcome, answers := a.first()
	if outcome == short {
		outcome, answers = a.second(answers)
	}
	if outcome != won {
		a.giveUp()
	}
	return a, outcome, answers
}

func (a *attempt) first() (decision, tally) {
	answers, doubted := a.l.d.expect()
	token, outcome := a.token, undecided
	for coming := a.ask(acquireScript, allOf(len(answers)), token); outcome == undecided; {
		r := <-coming
		answers[r.i], doubted = r.reply, doubted.minus(r.i)
		outcome = answers.first()
		// A failure, and "held" to who doesn't ask again, is not said before they had their time as well.
		if doubted != 0 && (outcome == failed || outcome == taken && a.l.ticket == 0) {
			for doubted != 0 {
				answers[doubted.next()] = reply{}
			}
			outcome = answers.first()
		}
	}
	if outcome == won {
		a.win(token)
	}
	return outcome, answers
}

// expect begins a tally, and returns which servers are not to be waited for: those that were silent the last time, as long as the
// others can decide. Where those are no majority, all have been cut off, and may be back by now.
func (d *redlock) expect() (answers tally, doubted servers) {
	answers = make(tally, len(d.nodes))
	for i, n := range d.nodes {
		if n.silent.Load() {
			answers[i].err, doubted = redisconn.ErrNoAnswer, doubted.with(i)
		}
	}
	if answers.outstanding() < majority(len(answers)) {
		clear(answers)
		doubted = 0
	}
	return answers, doubted
}

var errNotAsked = errors.New("it was not asked")

// second asks those who have granted the lock to agree to a larger token.
func (a *attempt) second(granted tally) (decision, tally) {
	var which servers
	answers := make(tally, len(granted))
	for i, r := range granted {
		if r.ours() {
			which = which.with(i)
		} else {
			answers[i] = reply{err: errNotAsked}
		}
	}
	token, _ := granted.larger()
	outcome := undecided
	for coming := a.ask(raiseScript, which, token); outcome == undecided; outcome = answers.second() {
		r := <-coming
		answers[r.i] = r.reply
	}
	if outcome == won {
		a.win(token)
		a.l.d.clock.learn(token)
	}
	return outcome, answers
}

// win is called when a majority has raised the counter to token.
func (a *attempt) win(token locker.Token) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.token, a.granted, a.given = token, true, a.sent
	for i := range a.backing.servers {
		if a.agreed[i] == token {
			a.backing.stands = a.backing.stands.with(i)
		}
	}
}

// answer is what server i says.
type answer struct {
	i int
	reply
}

// ask sends a script to some servers, side by side, and returns where the answers come. A server that doesn't answer
// counts as failed when its time is up, so all goroutines end by then.
func (a *attempt) ask(s *script, which servers, token locker.Token) <-chan answer {
	answers := make(chan answer, which.size())
	it := item{key: a.l.key, owner: a.owner, token: token, ttl: a.l.ttl, ticket: a.l.ticket}
	a.mu.Lock()
	a.asked |= which
	a.mu.Unlock()
	a.each(which, func(ctx context.Context, i int) {
		r := a.l.d.nodes[i].ask(ctx, s, it)
		if r.verdict == raised {
			r.counter = token
		}
		late := a.heard(i, s, r, token)
		answers <- answer{i, r}
		if late {
			a.each(servers(0).with(i), a.remove) //nolint:contextcheck // see each
		}
	})
	return answers
}

// each does something with some servers, side by side, in goroutines that end within the time that a server has: a caller
// that gives up must not leave behind what nobody has looked at.
//
//nolint:contextcheck // for that reason
func (a *attempt) each(which servers, do func(context.Context, int)) {
	ctx, cancel := context.WithTimeout(context.Background(), a.l.d.limitFor(a.l.ttl))
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

// heard takes in an answer, whenever it comes. It reports whether what stands is to be removed, because the attempt has
// failed meanwhile.
func (a *attempt) heard(i int, s *script, r reply, token locker.Token) (late bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked, a.last[i] = a.asked.minus(i), driver.Now()
	switch {
	case r.err != nil:
		if s == acquireScript && redisconn.Certain(r.err) {
			a.left = a.left.minus(i)
		}
	case r.verdict == raised:
		// A lease that was granted without waiting for this server has it too, if the token is the same.
		a.agreed[i] = token
		if a.granted && token == a.token {
			a.backing.stands = a.backing.stands.with(i)
		}
	case r.verdict != granted && s == acquireScript:
		a.left = a.left.minus(i)
		if r.verdict == held && a.l.ticket != 0 {
			a.placed = a.placed.with(i)
		}
	}
	return a.over && a.left.has(i)
}

// giveUp ends a failed attempt, and removes what has been granted. Servers that have not answered are left to those who
// wait for them.
func (a *attempt) giveUp() {
	a.mu.Lock()
	a.over = true
	which := a.left &^ a.asked
	a.mu.Unlock()
	if which != 0 {
		var all sync.WaitGroup
		all.Add(which.size())
		a.each(which, func(ctx context.Context, i int) {
			defer all.Done()
			a.remove(ctx, i)
		})
		all.Wait()
	}
}

// remove removes what may stand on a server, unless that is under way.
func (a *attempt) remove(ctx context.Context, i int) {
	a.mu.Lock()
	if !a.left.has(i) || a.busy.has(i) {
		a.mu.Unlock()
		return
	}
	a.busy = a.busy.with(i)
	a.mu.Unlock()
	it := item{key: a.l.key, owner: a.owner, ttl: a.l.ttl}
	if a.l.isReleased() { // what a failed attempt has left is removed while the wait goes on, and nobody is told
		it.token, it.ticket = 1, a.l.ticket
	}
	r := a.l.d.nodes[i].ask(ctx, releaseScript, it)
	if r.err == nil && r.verdict != released {
		r.err = errors.New(r.text)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.busy = a.busy.minus(i)
	if r.err != nil && a.errs == nil {
		a.errs = make([]error, len(a.l.d.nodes))
	}
	if a.errs != nil {
		a.errs[i] = r.err
	}
	if r.err == nil {
		a.left, a.backing.stands = a.left.minus(i), a.backing.stands.minus(i)
	}
}

// remains is the servers on which something of a may stand. If errs is given, it gets the reasons.
func (a *attempt) remains(errs *[mostServers]error) servers {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.left == 0 {
		return 0
	}
	now := driver.Now()
	for which := a.left &^ a.asked; which != 0; {
		// What the last request has set or renewed ends a TTL after that was carried out. If that went unheard, it was
		// within another TTL, or there was nothing left to renew. One that creates, and is carried out even later, was held
		// up by a server that stood still: what it sets ends by itself as well, and the removals that were sent in vain
		// come behind it.
		if i := which.next(); now.Sub(a.last[i]) > 2*a.l.ttl {
			a.left = a.left.minus(i)
		}
	}
	if errs != nil && a.errs != nil {
		for which := a.left; which != 0; {
			i := which.next()
			errs[i] = a.errs[i]
		}
	}
	return a.left
}

// leave has the removal go to those servers, too, where the acquisition may have nothing but a place among those who wait.
func (a *attempt) leave() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.left |= a.placed
	a.placed = 0
}

// takePlaces returns where there may be places, once.
func (a *attempt) takePlaces() servers {
	a.mu.Lock()
	defer a.mu.Unlock()
	placed := a.placed
	a.placed = 0
	return placed
}
