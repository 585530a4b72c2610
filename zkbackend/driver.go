package zkbackend

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/driver/kit"
	"github.com/fencedlock/locker/internal/zkconn"
)

const (
	openLimit   = 10 * time.Second // of all requests of an opening
	closeLimit  = 2 * time.Second  // of ending what a failed opening has opened
	maxSessions = 8                // each costs a connection and a few goroutines
	minTTL      = 100 * time.Millisecond

	// minTick is the shortest tick that may be given: something is read on each session every 3/8 of a
	// tick. A tick that is found out is longer, because a twentieth of a session for any TTL is.
	minTick = 10 * time.Millisecond
)

// zkDriver is one Locker's access to ZooKeeper.
type zkDriver struct {
	ensemble   *zkconn.Ensemble
	chroot     *chroot
	margins    margins
	ttl        time.Duration // of leases that don't ask for one
	guarantees locker.Guarantees
	sessions   *kit.Sessions[*session]
	tasks      *kit.Tasks
	freed      freed

	mu     sync.Mutex
	bounds kit.TTLBounds // Max is the longest TTL that the servers allow, as far as is known
}

var (
	_ driver.Driver = (*zkDriver)(nil)
	_ driver.Lock   = (*lock)(nil)
)

// newDriver asks the servers what they allow, and opens the session of leases that don't ask for a
// TTL.
func newDriver(ctx context.Context, c config) (*zkDriver, error) {
	servers, err := zkconn.WithPorts(c.servers)
	if err = errors.Join(err, c.check()); err != nil {
		return nil, err
	}
	d := &zkDriver{
		ensemble: &zkconn.Ensemble{Servers: servers, Dial: c.dial, Auth: c.auth},
		chroot:   &c.chroot,
		ttl:      roundUp(c.ttl),
		tasks:    kit.NewTasks(),
	}
	d.sessions = kit.NewSessions(kit.SessionOptions[*session]{
		Tasks:     d.tasks,
		Max:       maxSessions,
		Each:      "a ZooKeeper session of its own",
		New:       func(ttl time.Duration) *session { return newSession(d.ensemble, d.chroot, d.margins, ttl) },
		Open:      d.openSession,
		Transient: zkconn.Transient,
		Slow:      func(s *session) error { return s.conn.Unanswered() },
	})
	err = kit.Opening(ctx, openLimit, func(ctx context.Context) error { return d.open(ctx, c.tick) }, explain)
	if err != nil {
		closing, cancel := context.WithTimeout(ctx, closeLimit)
		defer cancel()
		_ = d.Close(closing)
		return nil, err
	}
	return d, nil
}

// open finds out what the servers allow (tick 0: the tick, too), and tries what acquisitions need.
func (d *zkDriver) open(ctx context.Context, tick time.Duration) error {
	shortest, longest, err := d.ensemble.Limits(ctx)
	if err != nil {
		return err
	}
	if tick == 0 {
		tick = tickOf(shortest, longest)
	}
	d.margins = marginsOf(tick)
	d.bounds = kit.TTLBounds{
		Min: shortestTTL(tick),
		Max: d.margins.longestTTL(longest),
		Why: "the servers' longest session",
	}
	if d.ttl == 0 {
		d.ttl = min(defaultTTL, d.bounds.Max)
	}
	if err := d.bounds.Check(d.ttl); err != nil {
		return err
	}
	s, err := d.sessions.Join(ctx, d.ttl)
	for zkconn.Transient(err) && ctx.Err() == nil { // one attempt has an acquisition's limit
		s, err = d.sessions.Join(ctx, d.ttl)
	}
	if err != nil {
		return err
	}
	defer d.sessions.Leave(s)
	seen, err := zkconn.Within(ctx, s.conn, s.inspect)
	if err != nil {
		return err
	}
	d.guarantees = d.found(tick, seen.voting, shortest)
	return d.survey(ctx, s, seen.root)
}

// tickOf guesses the tick from the shortest and the longest session: by default two and twenty
// ticks. If an operator has set them, they may not agree, and the larger tick counts: the margins
// are too large then, and never too small unless both were set to less.
func tickOf(shortest, longest time.Duration) time.Duration { return max(shortest/2, longest/20) }

// shortestTTL is half of a tick if the tick is long: with a shorter TTL, the session would still
// get two ticks, the shortest session.
func shortestTTL(tick time.Duration) time.Duration { return max(minTTL, tick/2) }

// inspection is what a session has found out for its Locker.
type inspection struct {
	root   zkconn.Origin // of the chroot
	voting int           // how many servers vote; 0: that can't be read
}

// inspect tries what acquisitions need. The node that it creates is gone with the same request.
func (s *session) inspect() (seen inspection, err error) {
	defer func() {
		if errors.Is(err, zk.ErrNoNode) { // somebody deletes the chroot meanwhile
			err = fmt.Errorf("%s: %w", s.chroot.path, err)
		}
	}()
	if err := s.createChroot(); err != nil {
		return seen, err
	}
	path := s.chroot.path + "/" + driver.NewOwner()
	_, _, err = s.conn.Transaction(
		&zk.CreateRequest{Path: path, Acl: s.chroot.acl, Flags: zk.FlagEphemeral},
		&zk.DeleteRequest{Path: path, Version: -1},
	)
	if err != nil {
		return seen, err
	}
	root, err := s.conn.Exists(s.chroot.path) // after the write, so its server knows the present node
	switch {
	case err != nil:
		return seen, err
	case root == nil:
		return seen, zk.ErrNoNode
	}
	return inspection{root: zkconn.OriginOf(root), voting: s.voting()}, nil
}

// openSession opens a session for all that wait for it. Its limit is shorter than an acquisition's,
// so that those hear why.
func (d *zkDriver) openSession(ctx context.Context, s *session) error {
	ctx, cancel := context.WithTimeout(ctx, acquireLimit-acquireLimit/10)
	defer cancel()
	err := s.conn.Open(ctx)
	if err == nil {
		return nil
	}
	d.tasks.Go(func(context.Context) { <-s.conn.Closed() })
	return d.refuseTTL(s.ttl, err)
}

// refuseTTL returns err, and makes it a refusal of the TTL if the servers grant too short a
// session, which it remembers.
func (d *zkDriver) refuseTTL(ttl time.Duration, err error) error {
	var short *zkconn.ShortError
	if !errors.As(err, &short) {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.bounds.Max = min(d.bounds.Max, d.margins.longestTTL(short.Granted))
	return fmt.Errorf("%w: %w", d.bounds.Check(ttl), err)
}

// Guarantees implements driver.Driver.
func (d *zkDriver) Guarantees() locker.Guarantees { return d.guarantees }

// Lock implements driver.Driver.
func (d *zkDriver) Lock(req locker.Request, lost func(error)) (driver.Lock, error) {
	ttl := roundUp(req.TTL)
	if err := d.checkTTL(ttl); err != nil {
		return nil, err
	}
	return &lock{
		sessions:   d.sessions,
		tasks:      d.tasks,
		freed:      &d.freed,
		dirVersion: -1,
		dir:        d.chroot.dir(req.Name, req.Slot),
		owner:      driver.NewOwner(),
		ttl:        ttl,
		noWait:     req.NoWait,
		label:      driver.LabelOf(req).String(),
		notifyLost: lost,
	}, nil
}

func (d *zkDriver) checkTTL(ttl time.Duration) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.bounds.Check(ttl)
}

// Close implements driver.Driver. It ends all sessions and their goroutines, also sessions that are
// being opened, or that have just ended by themselves.
func (d *zkDriver) Close(ctx context.Context) error {
	return errors.Join(d.sessions.Close(ctx), d.tasks.Close(ctx))
}

// explain adds what to do to the errors that an operator can fix.
func explain(err error) error {
	if errors.Is(err, zk.ErrNoAuth) {
		return fmt.Errorf("a permission is missing on the nodes of the chroot, or on the nodes of the locks: %w", err)
	}
	return err
}
