package reference

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
)

// client is a Locker's end of the network. It has one connection, made with the first request after
// the last one broke.
type client struct {
	service *Service
	link    *Link
	steps   steps
	session string        // its name on the service
	ahead   time.Duration // of the clock of its machine, which no right client asks

	stop    context.Context // ends with close
	end     context.CancelFunc
	resumes sync.WaitGroup

	mu       sync.Mutex
	conn     *conn // nil: none is open
	calls    map[int]*call
	last     int              // the number of the last call
	locks    map[string]*lock // by owner: those that a notice may be about
	resuming bool
	closed   bool
}

// conn is a connection. Its two ends may notice at different times that it is broken.
type conn struct {
	client *client
	broken chan struct{} // closed when the client knows
	dead   bool          // the service knows; guarded by its mutex
}

// call is a request that has no reply yet.
type call struct {
	number int
	conn   *conn
	done   chan reply
}

// delivery is a request that has arrived.
type delivery struct {
	on     *conn
	number int
	request
	passage
}

func newClient(s *Service, link *Link) *client {
	c := &client{service: s, link: link, steps: s.steps, session: driver.NewOwner()[:16], calls: make(map[int]*call), locks: make(map[string]*lock)}
	c.stop, c.end = context.WithCancel(context.Background())
	link.set(func() { link.clients = append(link.clients, c) })
	return c
}

// call sends a request and waits for the reply. Without a reply, nobody knows whether the request
// was or will be executed. A request whose connection broke is sent again on a new one, which is
// harmless: the service knows each acquisition by its owner.
func (c *client) call(ctx context.Context, limit time.Duration, q request) (reply, error) {
	until := time.Now().Add(limit)
	r, err := c.ask(ctx, limit, q)
	if errors.Is(err, errReset) && ctx.Err() == nil {
		r, err = c.ask(ctx, time.Until(until), q)
	}
	return r, err
}

// ask sends a request once.
func (c *client) ask(ctx context.Context, limit time.Duration, q request) (reply, error) {
	p, err := c.begin()
	if err != nil {
		return reply{}, err
	}
	q.session = c.session
	c.link.send(func(way passage) { c.service.arrive(delivery{p.conn, p.number, q, way}) })
	select {
	case r := <-p.done: // without faults, the usual case
		return r, r.err
	default:
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case r := <-p.done:
		return r, r.err
	case <-timer.C:
		err = locker.ErrNoAnswer
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.calls, p.number)
	return reply{}, err
}

// begin makes a connection if there is none.
func (c *client) begin() (*call, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, errClosed
	}
	if c.conn == nil {
		c.conn = &conn{client: c, broken: make(chan struct{})}
	}
	c.last++
	p := &call{number: c.last, conn: c.conn, done: make(chan reply, 1)}
	c.calls[p.number] = p
	return p, nil
}

// answer processes a reply: it is for the call that has its number.
func (c *client) answer(number int, r reply) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := c.steps.match(c, number); p != nil {
		delete(c.calls, p.number)
		p.done <- r
	}
}

func (c *client) match(number int) *call { return c.calls[number] }

// hear processes a notice that was sent on a connection.
func (c *client) hear(on *conn, n notice) {
	select {
	case <-on.broken:
		return
	default:
	}
	c.mu.Lock()
	l := c.steps.addressee(c, n)
	c.mu.Unlock()
	if l != nil {
		l.hear(n)
	}
}

func (c *client) addressee(n notice) *lock { return c.locks[n.owner] }

// reset notes that a connection is broken. Whatever was said on it meanwhile is lost, so the client
// asks for everything that it holds or waits for.
func (c *client) reset(broken *conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conn != broken {
		return
	}
	c.conn = nil
	close(broken.broken)
	for number, p := range c.calls {
		if p.conn == broken {
			delete(c.calls, number)
			p.done <- reply{err: errReset}
		}
	}
	if !c.closed && !c.resuming && len(c.locks) > 0 {
		c.resuming = true
		c.resumes.Go(c.resume)
	}
}

// resume connects again and asks for all locks and places. The notices go to the new connection
// from then on.
func (c *client) resume() {
	for pause := 5 * time.Millisecond; c.stop.Err() == nil; pause = min(2*pause, time.Second) {
		locks := c.steps.known(c)
		if len(locks) == 0 || c.steps.renew(c, c.stop, locks, func(int, driver.Instant, error) {}) == nil {
			break
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-c.stop.Done():
		}
		timer.Stop()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.resuming = false
}

// known returns the locks and places that the service has confirmed.
func (c *client) known() []*lock {
	c.mu.Lock()
	defer c.mu.Unlock()
	var known []*lock
	for _, l := range c.locks {
		if p := l.current(); p == waiting || p == holding {
			known = append(known, l)
		}
	}
	return known
}

func (c *client) register(l *lock) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.steps.register(c, l)
}

func (c *client) forget(l *lock) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.steps.forget(c, l)
}

func (c *client) add(l *lock)    { c.locks[l.claim.owner] = l }
func (c *client) remove(l *lock) { delete(c.locks, l.claim.owner) }

func (c *client) connection() *conn {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.conn
}

// close ends the connection. The service notices that after everything that was sent before, and
// never on a network that is cut.
func (c *client) close() {
	c.mu.Lock()
	c.closed = true
	last := c.conn
	c.mu.Unlock()
	c.end()
	c.resumes.Wait()
	if last != nil {
		c.link.send(func(passage) { c.service.locked(func() { c.service.steps.hangUp(c.service, last) }) })
		c.reset(last)
	}
}
