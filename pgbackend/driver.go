package pgbackend

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/driver/kit"
	"github.com/fencedlock/locker/internal/pgsession"
)

// pgDriver connects one Locker to its database.
//
// The mutexes of this package, in their order: a goroutine that holds one locks only mutexes to the
// right of it.
//
//	lock.moveLock → pgDriver.mu or pool.mu or labels.mu → conn.mu → the mutex of pgsession.Session
//	lock.moveLock → lock.mu → the mutex of pgsession.Session
//
// Only lock.moveLock is held while statements are executed. names.mu and the mutexes of kit are
// never held together with another mutex, except lock.moveLock.
type pgDriver struct {
	config     *pgxpool.Config
	schema     schema
	prefix     string
	ttl        time.Duration // of leases that don't ask for one
	keyOf      func(schema, prefix, name string) key
	guarantees locker.Guarantees

	tasks      *kit.Tasks
	pools      *kit.Sessions[*pool]
	poolers    pgsession.Poolers
	largest    largestToken
	knownEpoch knownEpoch
	names      names
	labels     *labels

	lostProbes lostProbes

	mu     sync.Mutex // guards the rest
	closed bool
	conns  map[*conn]struct{} // that have not ended
	slots  waiterSlots
}

var (
	_ driver.Driver = (*pgDriver)(nil)
	_ driver.Lock   = (*lock)(nil)
)

// ttls are the TTLs that are accepted. Statements get a fraction of a TTL, and a server under load
// takes some milliseconds for one.
var ttls = kit.TTLBounds{
	Min:  100 * time.Millisecond,
	Max:  pgsession.MaxIdleTimeout,
	Unit: time.Millisecond,
	Why:  "what idle_session_timeout and tcp_user_timeout can be set to",
}

// maxPools is how many TTLs may be in use at the same time. Each has a connection of its own.
const maxPools = 4

func newDriver(config *pgxpool.Config, o options) *pgDriver {
	d := &pgDriver{
		config: config.Copy(),
		schema: schema(o.schema),
		prefix: o.prefix,
		ttl:    ttls.RoundUp(o.ttl),
		keyOf:  keyOf,
		tasks:  kit.NewTasks(),
		conns:  make(map[*conn]struct{}),
		slots:  waiterSlots{limit: o.waiters, refused: driver.Stamp().Add(-connectPause)},
	}
	d.names.inUse = make(map[key]*named)
	d.labels = newLabels(d, !o.labels)
	if o.labels {
		nameApplication(d.config, applicationPrefix+locker.DefaultHolder())
	}
	d.pools = kit.NewSessions(kit.SessionOptions[*pool]{
		Tasks: d.tasks,
		Max:   maxPools,
		Each:  "a connection of its own",
		New:   func(ttl time.Duration) *pool { return &pool{d: d, ttl: ttl, retryAt: driver.Stamp()} },
	})
	return d
}

// open makes the first connection, and finds out what the server is like.
func (d *pgDriver) open(ctx context.Context) error {
	p, err := d.pools.Join(ctx, d.ttl)
	if err != nil {
		return err
	}
	defer d.pools.Leave(p)
	c, err := d.connect(ctx, p, false)
	if err != nil {
		return err
	}
	p.mu.Lock()
	p.shared = c
	p.mu.Unlock()
	d.names.limit = lockLimit(c.server)
	if err := checkRoom(ctx, c.Session, d.names.limit); err != nil {
		return err
	}
	d.guarantees = Guarantees()
	if d.slots.limit == 0 {
		d.guarantees.Order, d.guarantees.Waiting, d.guarantees.Inspection = locker.OrderNone, locker.WaitingPolled, locker.InspectionHolder
	}
	if !c.takesLabels.Load() {
		d.guarantees.Break = locker.BreakNone
	}
	if pgsession.Hosts(d.config.ConnConfig) > 1 {
		d.guarantees.Tolerance = locker.ToleranceFailover
	}
	return nil
}

func (d *pgDriver) Guarantees() locker.Guarantees { return d.guarantees }

func (d *pgDriver) Lock(req locker.Request, lost func(error)) (driver.Lock, error) {
	if err := ttls.Check(req.TTL); err != nil {
		return nil, err
	}
	text := textOf(req.Name, req.Slot)
	return &lock{
		d:          d,
		key:        d.keyOf(string(d.schema), d.prefix, text),
		text:       text,
		label:      driver.LabelOf(req),
		ttl:        ttls.RoundUp(req.TTL),
		noWait:     req.NoWait,
		notifyLost: lost,
		moveLock:   make(chan struct{}, 1),
	}, nil
}

// anyConn returns the shared connection of a TTL, for what can be asked on each shared connection. If
// there are too many TTLs, it is the shared connection of another one. It never is a connection of an
// epoch that is over: a former primary knows nothing of the sessions on the next one.
func (d *pgDriver) anyConn(ctx context.Context, ttl time.Duration) (*conn, error) {
	p, err := d.pools.Join(ctx, ttl)
	if err != nil {
		var open bool
		if p, open = d.pools.Any(); !open {
			return nil, err
		}
	}
	defer d.pools.Leave(p)
	return p.sharedConn(ctx)
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
	d.poolers.Forget(c.Session)
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, open := d.conns[c]; open && c.isWaiter {
		d.slots.used--
	}
	delete(d.conns, c)
}

// waiterConns counts the connections of waiters.
func (d *pgDriver) waiterConns() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.slots.used
}

// Close ends the connections, and waits until the server has ended them as well.
func (d *pgDriver) Close(ctx context.Context) error {
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return nil
	}
	d.closed = true
	conns := slices.Collect(maps.Keys(d.conns))
	d.mu.Unlock()
	d.tasks.Stop(locker.ErrClosed)
	goodbye, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	d.labels.close(goodbye)
	var all sync.WaitGroup
	all.Go(func() { _ = d.pools.Close(goodbye) }) // which refuses further acquisitions
	for _, c := range conns {
		all.Go(func() { c.Close(goodbye) })
	}
	all.Wait()
	return d.tasks.Wait(context.WithoutCancel(ctx)) // they have ended, or are about to
}

// halfOf has half of the time that ctx has.
func halfOf(ctx context.Context) (context.Context, context.CancelFunc) {
	until, limited := ctx.Deadline()
	if !limited {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, time.Until(until)/2)
}
