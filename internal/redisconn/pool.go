package redisconn

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver/kit"
)

// Pool is a pool of connections to one server, on which a call returns at once when its context
// ends. Each connection belongs to a client of its own, which is closed to end the call: go-redis
// has no other way to do that, and doesn't tell on which connection of its own pool a call waits.
type Pool struct {
	options redis.Options
	slots   chan struct{} // has a value for each connection that is busy

	mu      sync.Mutex
	idle    []*pooledConn // the one that was used last is at the end
	busy    map[*pooledConn]struct{}
	aside   bool      // connectAside is making a connection
	doubted time.Time // an idle connection on which nothing was heard since then may be dead; zero: none may
	settled time.Time // a call that began before that, and is answered after all, ends the doubt
	quiet   Quiet
	closed  bool
}

// NewPool makes a pool with the settings of a client of the server, and as many connections as that
// client may have. The settings must have ContextTimeoutEnabled. A Dialer among them isn't used.
func NewPool(o *redis.Options) *Pool {
	p := &Pool{options: *o, slots: make(chan struct{}, o.PoolSize), busy: make(map[*pooledConn]struct{})}
	p.options.PoolSize = 2    // with one, go-redis refuses to connect for up to a second after each failure
	p.options.Protocol = 2    // with 3, it looks for pushed messages before and after each command
	p.options.MaxRetries = -1 // commands have none (NoRetry), but the greeting would
	return p
}

// send sends commands in one message and waits for their results, until end at the latest. It
// returns at once when ctx ends.
//
//nolint:contextcheck // the end of ctx interrupts the call
func (p *Pool) send(ctx context.Context, end time.Time, cmds []redis.Cmder) error {
	now := time.Now()
	if ctx.Err() != nil || !end.IsZero() && !now.Before(end) {
		return fmt.Errorf("%w: %w", locker.ErrNoAnswer, kit.ErrNotSent)
	}
	c, err := p.take(ctx, end)
	if err != nil {
		return err
	}
	c.refresh(now)
	call := &pooledCall{Context: context.Background(), end: end}
	c.begin(call)
	stop := func() bool { return true }
	if ctx.Done() != nil {
		stop = context.AfterFunc(ctx, func() { c.interrupt(call) })
	}
	interrupted, reusable := false, false
	defer func() { // also when a call panics
		stop()
		p.put(c, reusable, now)
	}()
	err = c.process(call, cmds)
	interrupted = c.finish()
	if reusable = !interrupted && c.keeps(cmds); reusable {
		c.heard = time.Now()
	}
	p.judge(now, end, interrupted, cmds)
	if c.heard.IsZero() && cap(p.slots) > 1 && (interrupted || isOver(end)) {
		p.connectAside()
	}
	return c.unheard(err, interrupted)
}

func isOver(end time.Time) bool { return !end.IsZero() && !time.Now().Before(end) }

// connectTime is how long connectAside may take: to connect and to greet the server takes go-redis up to
// six round trips.
const connectTime = 2 * time.Second

// connectAside makes a connection for later calls, unless it is making one already. On a slow network, the
// time of a call may end before its new connection can be used. Then that connection is closed, and the next
// call would begin with another one, and so on. A pool of one connection has no room for it.
func (p *Pool) connectAside() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.aside || p.closed {
		return
	}
	p.aside = true
	go func() {
		GrowStack()
		ctx := context.Background()
		_ = p.send(ctx, time.Now().Add(connectTime), []redis.Cmder{NewCommand(ctx, "ping")})
		p.mu.Lock()
		defer p.mu.Unlock()
		p.aside = false
	}()
}

// take waits for a connection that is free.
func (p *Pool) take(ctx context.Context, end time.Time) (*pooledConn, error) {
	select {
	case p.slots <- struct{}{}:
	default:
		if err := p.waitForSlot(ctx, end); err != nil {
			return nil, err
		}
	}
	c, replaced, err := p.takeIdle()
	if replaced != nil {
		_ = replaced.client.Close()
	}
	return c, err
}

// takeIdle takes the idle connection that was used last, or a new one. It also returns the one that
// the new one replaces, because it may be dead.
func (p *Pool) takeIdle() (c, replaced *pooledConn, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		<-p.slots
		return nil, nil, fmt.Errorf("%w: %w", kit.ErrClosing, kit.ErrNotSent)
	}
	if n := len(p.idle); n > 0 {
		c, p.idle = p.idle[n-1], p.idle[:n-1]
	}
	if c != nil && c.heard.Before(p.doubted) {
		c, replaced = nil, c
	}
	if c == nil {
		c = newPooledConn(p.options)
	}
	p.busy[c] = struct{}{}
	return c, replaced, nil
}

func (p *Pool) waitForSlot(ctx context.Context, end time.Time) error {
	ctx, cancel := within(ctx, end)
	defer cancel()
	select {
	case p.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", locker.ErrNoAnswer, kit.ErrNotSent)
	}
}

// put gives back a connection after a call that began then. If the call was answered, and has been under
// way for most of a silence that makes others doubtful, the server was slow, and the doubt ends.
func (p *Pool) put(c *pooledConn, reusable bool, began time.Time) {
	p.mu.Lock()
	delete(p.busy, c)
	if reusable {
		p.quiet.Answered()
	}
	if reusable && began.Before(p.settled) {
		p.doubted, p.settled = time.Time{}, time.Time{}
	}
	reusable = reusable && !p.closed
	if reusable {
		p.idle = append(p.idle, c)
	}
	p.mu.Unlock()
	if !reusable {
		_ = c.client.Close()
	}
	<-p.slots
}

// silence is how long a call that is interrupted before its end has been without an answer when it makes
// the idle connections doubtful.
const silence = time.Second

// judge draws conclusions for the other connections from how a call has ended. What has ended one
// connection may have ended all, and each further try of a request would find another dead one. A
// server that is a replica now has the other connections as well. Where nothing was heard, a firewall
// may have forgotten all connections that were silent, or the server is slow: an answer that comes
// later says so.
func (p *Pool) judge(began, end time.Time, interrupted bool, cmds []redis.Cmder) {
	silent := interrupted && (time.Since(began) >= silence || isOver(end))
	for _, cmd := range cmds {
		switch err := cmd.Err(); {
		case interrupted, err == nil, Unsent(err):
		case Broken(err), Says(err, "READONLY"):
			p.dropIdle()
			return
		case Silent(err):
			silent = true
		}
	}
	if silent && p.quiet.IsSilence(began) {
		p.doubtIdle(began)
	}
}

// doubtIdle has the idle connections on which nothing was heard since then replaced when they are
// needed, one by one.
func (p *Pool) doubtIdle(since time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.doubted.Before(since) {
		p.doubted, p.settled = since, since.Add(time.Since(since)/2)
	}
}

// dropIdle closes what is idle.
func (p *Pool) dropIdle() {
	p.mu.Lock()
	idle := p.idle
	p.idle = nil
	p.mu.Unlock()
	for _, c := range idle {
		_ = c.client.Close()
	}
}

// close ends all calls.
func (p *Pool) close() {
	p.mu.Lock()
	p.closed = true
	idle := p.idle
	p.idle = nil
	var busy []*pooledConn
	for c := range p.busy {
		busy = append(busy, c)
	}
	p.mu.Unlock()
	for _, c := range slices.Concat(idle, busy) {
		c.mu.Lock()
		call := c.call
		c.mu.Unlock()
		if call != nil {
			c.interrupt(call)
		} else {
			_ = c.client.Close()
		}
	}
}
