package conformance_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
)

// toyDriver is the client of the toy.
type toyDriver struct {
	server  *toy
	link    *toyLink
	session string
	skew    time.Duration
	pool    toyPool

	renewers sync.WaitGroup // with the flaw renewGoesOn
	closing  atomic.Bool
	closed   chan struct{}
}

func (d *toyDriver) Guarantees() locker.Guarantees { return d.server.guarantees() }

func (d *toyDriver) Lock(req locker.Request, _ func(error)) (driver.Lock, error) {
	l := &toyLock{d: d, name: d.server.slotName(req), ttl: req.TTL, owner: driver.NewOwner()}
	if d.server.flaws.sessionOwner {
		l.owner = d.session
	}
	return l, nil
}

// slotName is the name of a key, or for a slot what no name can be.
func (s *toy) slotName(req locker.Request) string {
	if s.flaws.digest != nil {
		req.Name = s.flaws.digest(req.Name)
	}
	switch {
	case req.Slot == 0:
		return req.Name
	case s.flaws.slotAfterHash && req.Slot > 0:
		return fmt.Sprintf("%s#%d", req.Name, req.Slot)
	case s.flaws.slotInByte:
		return fmt.Sprintf("%s%c%d", req.Name, slotMark, uint8(req.Slot))
	}
	return fmt.Sprintf("%s%c%d", req.Name, slotMark, req.Slot)
}

// plainName is the name of a lock, or of the lock that a slot belongs to.
func plainName(key string) string {
	name, _, _ := strings.Cut(key, string(slotMark))
	return name
}

const slotMark = '\x00'

// isSlot reports whether a key is a permit's, and no line.
func isSlot(name string) bool {
	_, slot, found := strings.Cut(name, string(slotMark))
	return found && slot != fmt.Sprint(locker.LineSlot)
}

func (d *toyDriver) Renew(ctx context.Context, locks []driver.Lock, report func(int, driver.Instant, error)) {
	if d.server.flaws.renewsInSteps || d.server.flaws.lastStamp {
		d.renewEach(ctx, locks, report)
		return
	}
	answers := make([]error, len(locks))
	sent := driver.Stamp()
	err := d.call(ctx, locks[0].(*toyLock).ttl, func(now time.Time) {
		for i, lock := range locks {
			l := lock.(*toyLock)
			if answers[i] = d.server.renew(l.name, l.owner, l.ttl, now); d.server.flaws.markStops && errors.Is(answers[i], locker.ErrBroken) {
				break
			}
		}
	})
	if d.server.flaws.slotByName {
		keepByName(locks, answers)
	}
	for i := range locks {
		if d.server.fromReply(locks[i].(*toyLock).name) {
			sent = driver.Stamp()
		}
		switch {
		case err != nil && d.server.flaws.impatient:
			report(i, 0, locker.ErrLost)
		case err != nil && d.server.flaws.trusting:
			report(i, driver.Stamp(), nil)
		case err != nil:
			report(i, 0, err)
		case answers[i] != nil:
			report(i, 0, answers[i])
		default:
			locks[i].(*toyLock).extend(sent)
			report(i, sent, nil)
		}
	}
}

// fromReply reports whether the lease of a key counts from the reply's time.
func (s *toy) fromReply(name string) bool {
	return s.flaws.fromReply || s.flaws.slotFromReply && isSlot(name)
}

// keepByName leaves the last answer for each name.
func keepByName(locks []driver.Lock, answers []error) {
	last := make(map[string]error)
	for i, lock := range locks {
		last[plainName(lock.(*toyLock).name)] = answers[i]
	}
	for i, lock := range locks {
		answers[i] = last[plainName(lock.(*toyLock).name)]
	}
}

func (d *toyDriver) Break(ctx context.Context, name string, token locker.Token, b locker.Breach) (locker.Effect, error) {
	takeAway := d.takeAway
	if d.server.flaws.breaksInSteps {
		takeAway = d.breakInSteps
	}
	within, found, err := takeAway(ctx, d.server.slotName(locker.Request{Name: name, Slot: b.Slot}), token, b)
	switch {
	case err != nil:
		return locker.Effect{}, err
	case !found:
		return locker.Effect{}, locker.ErrNotHolder
	}
	return locker.Effect{Within: within}, nil
}

func (d *toyDriver) Close(context.Context) error {
	close(d.closed)
	d.renewers.Wait()
	return nil
}

// closing tells the driver before it is closed.
type closing struct {
	forwards
	d *toyDriver
}

func (c closing) Close() error {
	c.d.closing.Store(true)
	return c.Locker.Close()
}

// call sends a request over the link. If there is no answer, it is unknown whether the request was
// executed, or will be.
func (d *toyDriver) call(ctx context.Context, ttl time.Duration, run func(now time.Time)) error {
	return d.callOn(ctx, d.pool.get(d.link), ttl, run)
}

// callOn is call on one connection, which is back in the pool when there was an answer.
func (d *toyDriver) callOn(ctx context.Context, on *toyConn, ttl time.Duration, run func(now time.Time)) error {
	limit := 2 * time.Second
	if ttl > 0 {
		limit = min(ttl/6, limit)
	}
	if d.server.flaws.deaf {
		ctx = context.WithoutCancel(ctx)
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	if d.server.flaws.staleConn && d.link.stale() {
		return errors.New("broken pipe")
	}
	answer, broken := d.link.send(on, d.server, func() { run(time.Now().Add(d.skew)) })
	select {
	case err := <-answer:
		d.pool.put(on)
		return err
	case <-broken:
		return errors.New("connection was reset")
	case <-timer.C:
		d.pool.silent(on, d.link, d.server.flaws)
		return errNoAnswer
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

var errNoAnswer = errors.New("no answer in time")

type toyLock struct {
	d     *toyDriver
	name  string
	owner string
	ttl   time.Duration
	clear bool // the server has nothing of this acquisition
	on    *toyConn

	waited bool // it was refused before

	expires atomic.Int64 // a driver.Instant, a little early; for the flaw lapses
}

func (l *toyLock) extend(base driver.Instant) { l.expires.Store(int64(base.Add(l.ttl - l.ttl/20))) }

func (l *toyLock) Acquire(ctx context.Context) (driver.Grant, error) {
	type reply struct {
		token locker.Token
		ok    bool
	}
	var r reply
	l.clear = false
	waited := l.waited
	request := func(now time.Time) {
		if r.token, r.ok = l.d.server.acquire(l.name, l.owner, l.d.link, l.ttl, now); r.ok {
			l.d.server.granted(l.name, waited)
		}
	}
	if l.d.server.flaws.asksFirst {
		_ = l.d.call(ctx, l.ttl, func(time.Time) {}) // its answer is of no interest
	}
	sent := driver.Stamp()
	l.on = l.d.pool.get(l.d.link)
	err := l.d.callOn(ctx, l.on, l.ttl, request)
	for waited && l.d.server.flaws.waitsOn && errors.Is(err, errNoAnswer) && l.d.link.isForgotten(l.on) {
		err = l.d.callOn(ctx, l.on, l.ttl, request)
	}
	if err != nil && l.d.server.flaws.repeats {
		err = l.d.call(ctx, l.ttl, request)
	}
	if l.d.server.fromReply(l.name) {
		sent = driver.Stamp()
	}
	switch {
	case err != nil:
		return driver.Grant{}, err
	case !r.ok:
		l.clear, l.waited = true, true
		return driver.Grant{}, &driver.HeldError{AskWithin: l.d.server.pollPause()}
	}
	l.extend(sent)
	return driver.Grant{Token: r.token, Base: sent, TTL: l.ttl}, nil
}

func (l *toyLock) Release(ctx context.Context) error {
	if l.clear || l.d.server.flaws.lapses && driver.Stamp() >= driver.Instant(l.expires.Load()) {
		return nil
	}
	if l.d.server.flaws.releasesInSteps {
		if done, err := l.releaseInSteps(ctx); done || err != nil {
			return err
		}
	}
	on := l.on
	if !l.d.server.flaws.releasesOn {
		on = l.d.pool.get(l.d.link)
	}
	err := l.d.callOn(ctx, on, l.ttl, func(now time.Time) { l.d.server.release(l.name, l.owner, now) })
	if errors.Is(err, errNoAnswer) && l.d.server.flaws.closesBriefly && l.d.closing.Load() {
		return nil
	}
	if err == nil && l.d.server.flaws.renewGoesOn {
		l.d.renewers.Go(l.renewOn)
	}
	return err
}

func (s *toy) pollPause() time.Duration {
	if s.flaws.pollsOften {
		return time.Millisecond
	}
	return 100 * time.Millisecond
}

// renewOn renews until the driver is closed.
func (l *toyLock) renewOn() {
	tick := time.NewTicker(l.ttl / 3)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			l.d.Renew(context.Background(), []driver.Lock{l}, func(int, driver.Instant, error) {})
		case <-l.d.closed:
			return
		}
	}
}
