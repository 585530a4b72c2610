package redisbackend

import (
	"context"
	"errors"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/driver/kit"
	"github.com/fencedlock/locker/internal/redisconn"
)

// redisDriver is what one Locker has of Redis.
type redisDriver struct {
	config
	router     *router
	grants     *grantListener // nil: waiters poll
	inspector  inspector
	guarantees locker.Guarantees

	unsentLimit     time.Duration // see unsentLimitOf
	renewals        *kit.Tasks    // that may outlast their call
	patientRounds   chan struct{} // has a value for each round of renewals that may outlast its call: see askPatiently
	furtherMessages chan struct{} // has a value for each message under way beyond the first one of its round

	done func() error // called when the driver is closed; nil: nothing
}

func newDriver(conn *redisconn.Conn, c config, done func() error) *redisDriver {
	d := &redisDriver{
		config:          c,
		router:          newRouter(conn, c.db),
		guarantees:      Guarantees(),
		unsentLimit:     unsentLimitOf(conn),
		renewals:        kit.NewTasks(),
		patientRounds:   make(chan struct{}, conn.PoolSize()/2),
		furtherMessages: make(chan struct{}, conn.PoolSize()/3),
		done:            done,
	}
	d.grants = newGrantListener(d)
	return d
}

var (
	_ driver.Driver = (*redisDriver)(nil)
	_ driver.Lock   = (*lock)(nil)
)

var ttls = kit.TTLBounds{
	Min:  10 * time.Millisecond,      // the allowance for clocks takes 2 ms
	Max:  100 * 365 * 24 * time.Hour, // far from where numbers overflow
	Unit: time.Millisecond,
}

func (d *redisDriver) Guarantees() locker.Guarantees { return d.guarantees }

func (d *redisDriver) Lock(req locker.Request, lost func(error)) (driver.Lock, error) {
	if err := ttls.Check(req.TTL); err != nil {
		return nil, err
	}
	return &lock{
		d:          d,
		key:        lockKey(d.prefix, req.Name, req.Slot),
		owner:      driver.NewOwner(),
		ttl:        ttls.RoundUp(req.TTL),
		said:       said(driver.LabelOf(req)),
		noWait:     req.NoWait || d.grants == nil,
		notifyLost: lost,
	}, nil
}

// releaseGhost releases a lock that was granted to an acquisition that is over, and had that TTL. If
// that fails, the lock ends with its TTL.
func (d *redisDriver) releaseGhost(ctx context.Context, key, owner string, ttl time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, messageTimeout)
	defer cancel()
	ttl = max(ttl, d.unsentLimit) // of the tombstone
	d.router.ask(ctx, request{script: releaseScript, key: key, owner: owner, ttl: ttl, sent: driver.Stamp()})
}

// Close ends the subscription and its goroutine, and waits for renewals.
func (d *redisDriver) Close(ctx context.Context) error {
	d.router.conn.Close()
	err := d.renewals.Close(ctx)
	if d.grants != nil {
		err = errors.Join(err, d.grants.Close(ctx))
	}
	if d.done != nil {
		err = errors.Join(err, d.done())
	}
	return err
}
