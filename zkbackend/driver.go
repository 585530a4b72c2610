package zkbackend

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
)

// zkDriver is the contact of one Locker with ZooKeeper.
type zkDriver struct {
	servers    []string
	dial       func(ctx context.Context, network, addr string) (net.Conn, error)
	auth       []auth
	acl        []zk.ACL
	root       string // the node below which all locks are
	margins    margins
	tick       time.Duration
	ttl        time.Duration // of leases that don't ask for one
	guarantees locker.Guarantees

	mu       sync.Mutex
	longest  time.Duration // the longest TTL that the servers allow, as far as is known
	sessions map[time.Duration]*opening
	all      map[*session]struct{} // those that have not ended yet; nil: no more are opened
	openings sync.WaitGroup        // goroutines that open one; none begins when all is nil
}

var (
	_ driver.Driver = (*zkDriver)(nil)
	_ driver.Lock   = (*lock)(nil)
)

// maxSessions bounds the TTLs in use, each of which costs a connection and a few goroutines.
const maxSessions = 8

// minTTL is the shortest TTL where the tick is short. Where it is long, less than half of it would get a session of two
// ticks, which is the shortest there is.
const minTTL = 100 * time.Millisecond

func shortestTTL(tick time.Duration) time.Duration { return max(minTTL, tick/2) }

// auth is one way in which sessions authenticate themselves.
type auth struct{ scheme, secret string }

// opening is a session, from when somebody begins to open it.
type opening struct {
	done   chan struct{}
	trying *session // knows why it takes so long
	s      *session
	err    error
}

func (d *zkDriver) Guarantees() locker.Guarantees { return d.guarantees }

func (d *zkDriver) Lock(req locker.Request, lost func(error)) (driver.Lock, error) {
	ttl := roundUp(req.TTL)
	if err := d.checkTTL(ttl); err != nil {
		return nil, err
	}
	return &lock{
		d:        d,
		dir:      d.root + "/" + escape(req.Name),
		owner:    driver.NewOwner(),
		ttl:      ttl,
		noWait:   req.NoWait,
		tellLost: lost,
	}, nil
}

func (d *zkDriver) checkTTL(ttl time.Duration) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch shortest := shortestTTL(d.tick); {
	case ttl < shortest:
		return fmt.Errorf("%w: TTL %v is shorter than %v", locker.ErrOption, ttl, shortest)
	case ttl > d.longest:
		return fmt.Errorf("%w: TTL %v is longer than %v, which is what the servers' longest session allows", locker.ErrOption, ttl, d.longest)
	}
	return nil
}

// session returns the session for a TTL, which is opened if there is none. The caller is one of its users until leave.
// Others may wait for the same one; so ctx bounds the waiting, and not the opening. An opening that others have begun may
// fail for what is over by now, so it is followed by another one.
//
//nolint:contextcheck
func (d *zkDriver) session(ctx context.Context, ttl time.Duration) (*session, error) {
	for {
		o, begun, err := d.claim(ttl)
		if err != nil {
			return nil, err
		}
		select {
		case <-o.done:
		case <-ctx.Done():
			return nil, o.trying.unanswered()
		}
		if o.err != nil && (begun || !transient(o.err)) {
			return nil, o.err
		}
		if o.err == nil && d.join(o.s) {
			return o.s, nil
		}
	}
}

// claim returns the session in use for a TTL. If there is none, it begins to open one.
func (d *zkDriver) claim(ttl time.Duration) (o *opening, begun bool, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.all == nil {
		return nil, false, errOver
	}
	if o := d.sessions[ttl]; o != nil {
		return o, false, nil
	}
	if len(d.sessions) >= maxSessions && !d.evict() {
		return nil, false, fmt.Errorf("%w: TTL %v needs a session of its own, and %d are in use", locker.ErrOption, ttl, maxSessions)
	}
	o = &opening{done: make(chan struct{}), trying: newSession(d, ttl)}
	d.sessions[ttl] = o
	d.openings.Go(func() { d.open(o, ttl) })
	return o, true, nil
}

// evict ends a session that nobody uses.
func (d *zkDriver) evict() bool {
	for ttl, o := range d.sessions {
		if o.s != nil && o.s.users == 0 {
			delete(d.sessions, ttl)
			o.s.end(errOver) // its own goroutine does the rest
			return true
		}
	}
	return false
}

// open opens the session that was claimed. It ends by its own limit, or when the driver is closed, which ends the session.
func (d *zkDriver) open(o *opening, ttl time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), acquireLimit-acquireLimit/10) // so that who waits hears why
	defer cancel()
	s, err := d.connect(ctx, o.trying)
	d.mu.Lock()
	defer d.mu.Unlock()
	defer close(o.done)
	if err != nil {
		o.err = d.tooLong(ttl, err)
		delete(d.sessions, ttl)
	}
	o.s = s
}

// enlist notes a session before it opens, unless the driver is closed.
func (d *zkDriver) enlist(s *session) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.all == nil {
		return false
	}
	d.all[s] = struct{}{}
	return true
}

// delist forgets a session when all of its goroutines have ended.
func (d *zkDriver) delist(s *session) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.all, s)
	close(s.ended)
}

// tooLong makes a refusal of the TTL of a session that was granted too little, and remembers it.
func (d *zkDriver) tooLong(ttl time.Duration, err error) error {
	var short *shortError
	if !errors.As(err, &short) {
		return err
	}
	d.longest = min(d.longest, d.margins.longestTTL(short.granted))
	return fmt.Errorf("%w: TTL %v is too long: %w", locker.ErrOption, ttl, err)
}

// join makes the caller a user of a session, unless that is at its end.
func (d *zkDriver) join(s *session) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if s.usable() {
		s.users++
		return true
	}
	if o := d.sessions[s.ttl]; o != nil && o.s == s {
		delete(d.sessions, s.ttl)
	}
	if s.users == 0 {
		s.end(errOver)
	}
	return false
}

// leave is called when nothing of an acquisition stands any more.
func (d *zkDriver) leave(s *session) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if s.users--; s.users == 0 && !s.usable() {
		s.end(errOver)
	}
}

// Close ends all sessions and their goroutines, also those that are being opened, or that have ended by themselves just now.
func (d *zkDriver) Close(ctx context.Context) error {
	d.mu.Lock()
	all := d.all
	d.all, d.sessions = nil, nil
	d.mu.Unlock()
	results := make(chan error, len(all))
	for s := range all {
		go func() { results <- s.close(ctx) }()
	}
	var errs []error
	for range all {
		errs = append(errs, <-results)
	}
	d.openings.Wait() // not long, as their sessions are over
	return errors.Join(errs...)
}
