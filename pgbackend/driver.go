package pgbackend

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/internal/pgsession"
)

// pgDriver is the contact of one Locker with its database.
type pgDriver struct {
	config
	pool       *pgxpool.Config
	keyOf      func(schema, prefix, name string) key
	guarantees locker.Guarantees

	// life is over when the Locker is closed. It bounds what is done for many callers at once.
	life context.Context //nolint:containedctx // of the goroutines that connect
	die  context.CancelCauseFunc
	busy sync.WaitGroup // goroutines that connect

	poolers pgsession.Poolers
	largest atomic.Int64 // the largest token that this Locker was given

	mu       sync.Mutex // guards the rest
	closed   bool
	names    map[key]*named
	sessions map[time.Duration]*session
	conns    map[*conn]struct{} // that have not ended
	waiters  int                // connections for waiters, and those about to be made
	refused  driver.Instant     // when one couldn't be made
	allowed  int                // locks that this Locker may have before the next look at the lock table
	share    int                // and how many more than it has at any moment

	tableSize int // locks that it has room for
}

// named is a name in use by acquisitions of this Locker.
type named struct {
	name string
	uses int
}

var (
	_ driver.Driver = (*pgDriver)(nil)
	_ driver.Lock   = (*lock)(nil)
)

// minTTL is the shortest TTL: statements get a fraction of it, and a server under load takes some milliseconds for one. maxTTL is
// what idle_session_timeout and tcp_user_timeout can say.
const (
	minTTL = 100 * time.Millisecond
	maxTTL = pgsession.MaxIdleTimeout
)

// maxSessions is how many TTLs may be in use at the same time. Each has a connection of its own.
const maxSessions = 4

func (d *pgDriver) Guarantees() locker.Guarantees { return d.guarantees }

func (d *pgDriver) Lock(req locker.Request, lost func(error)) (driver.Lock, error) {
	if err := checkTTL(req.TTL); err != nil {
		return nil, err
	}
	return &lock{
		d:        d,
		key:      d.keyOf(d.schema, d.prefix, req.Name),
		name:     req.Name,
		ttl:      roundUp(req.TTL),
		noWait:   req.NoWait,
		tellLost: lost,
		settling: make(chan struct{}, 1),
	}, nil
}

func checkTTL(ttl time.Duration) error {
	switch {
	case ttl < minTTL:
		return fmt.Errorf("%w: TTL %v is shorter than %v", locker.ErrOption, ttl, minTTL)
	case ttl > maxTTL:
		return fmt.Errorf("%w: TTL %v is longer than %v", locker.ErrOption, ttl, maxTTL)
	}
	return nil
}

// roundUp makes whole milliseconds of d.
func roundUp(d time.Duration) time.Duration {
	const ms = time.Millisecond
	if rest := d % ms; rest > 0 {
		d += ms - rest
	}
	return d
}

// bind notes that an acquisition uses a name, until unbind. It refuses a name whose key another one has.
func (d *pgDriver) bind(l *lock) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return locker.ErrClosed
	}
	n := d.names[l.key]
	switch {
	case n == nil:
		d.names[l.key] = &named{l.name, 1}
	case n.name != l.name:
		return fmt.Errorf("%w: %q", ErrCollision, n.name)
	default:
		n.uses++
	}
	return nil
}

func (d *pgDriver) unbind(l *lock) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.shrinkRoom()
	n := d.names[l.key]
	if n.uses--; n.uses == 0 {
		delete(d.names, l.key)
	}
}

// session returns the connections for leases of a TTL.
func (d *pgDriver) session(ttl time.Duration) (*session, error) {
	s, retired, err := d.findSession(ttl)
	for _, c := range retired {
		if c != nil {
			c.leave()
		}
	}
	return s, err
}

func (d *pgDriver) findSession(ttl time.Duration) (s *session, retired []*conn, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, nil, locker.ErrClosed
	}
	if s := d.sessions[ttl]; s != nil {
		return s, nil, nil
	}
	if len(d.sessions) >= maxSessions {
		maps.DeleteFunc(d.sessions, func(_ time.Duration, s *session) bool {
			for c := range d.conns {
				if c.ttl == s.ttl && c.inUse() {
					return false
				}
			}
			conns, unused := s.retire()
			retired = append(retired, conns...)
			return unused
		})
	}
	if len(d.sessions) >= maxSessions {
		return nil, retired, fmt.Errorf("%w: there are leases of %d TTLs already, each on a connection of its own, and %v would be one more",
			locker.ErrOption, len(d.sessions), ttl)
	}
	s = &session{d: d, ttl: ttl}
	d.sessions[ttl] = s
	return s, retired, nil
}

// anyConn returns the shared connection of a TTL, or that of any other if there can be none, for what can be asked on all of them.
func (d *pgDriver) anyConn(ctx context.Context, ttl time.Duration) (*conn, error) {
	for {
		s, err := d.session(ttl)
		if errors.Is(err, locker.ErrClosed) {
			return nil, err
		}
		if err != nil {
			d.mu.Lock()
			for _, s = range d.sessions {
				break
			}
			d.mu.Unlock()
		}
		if s == nil {
			return nil, err
		}
		c, err := s.conn(ctx)
		if !errors.Is(err, errRetired) {
			return c, err
		}
	}
}

// addConn notes a connection that is to be ended by Close. It is false when the Locker is closed.
func (d *pgDriver) addConn(c *conn) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return false
	}
	d.conns[c] = struct{}{}
	return true
}

func (d *pgDriver) forgetConn(c *conn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, open := d.conns[c]; open && c.waits {
		d.waiters--
	}
	delete(d.conns, c)
	d.poolers.Forget(c.Session)
}

// begin counts a goroutine that ends by itself once the Locker is closed. It is false when that has happened.
func (d *pgDriver) begin() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.closed {
		d.busy.Add(1)
	}
	return !d.closed
}

// Close ends the connections, and waits until the server has ended them too.
func (d *pgDriver) Close(ctx context.Context) error {
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return nil
	}
	d.closed = true
	conns := slices.Collect(maps.Keys(d.conns))
	d.mu.Unlock()
	d.die(locker.ErrClosed)
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	var all sync.WaitGroup
	for _, c := range conns {
		all.Go(func() { c.Close(ctx) })
	}
	all.Wait()
	d.busy.Wait()
	return nil
}

// callContext bounds what is done for one caller, whose own context must not reach a connection that others share.
func callContext(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), limit)
}

// halfOf has half of the time that ctx has.
func halfOf(ctx context.Context) (context.Context, context.CancelFunc) {
	until, limited := ctx.Deadline()
	if !limited {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, time.Until(until)/2)
}
