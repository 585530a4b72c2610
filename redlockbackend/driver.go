package redlockbackend

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
)

// redlock is what one Locker has of its servers.
type redlock struct {
	config
	nodes    []*node
	clock    clock
	waitlist *waitlist
	workers  *workers
	trailing trailing

	// unsentLimit is for how long a request that was given up may still be on its way out of this
	// process: the message that it is part of, and what go-redis may add to that.
	unsentLimit time.Duration

	closing atomic.Bool
	done    func() error // closes the clients; nil: they are the caller's
}

func newDriver(clients []*redis.Client, c config, done func() error) *redlock {
	c.maxTTL = c.ttls().RoundUp(c.maxTTL)
	d := &redlock{config: c, workers: newWorkers(len(clients) * workersStay), done: done}
	d.waitlist = newWaitlist(d)
	for i, client := range clients {
		n := newNode(client, memoryKey(c.prefix), c.maxTTL, c.serverTimeout)
		if done != nil { // the clients are the driver's own: nobody else has settings in them
			n.conn.UsePool()
		}
		n.listener, n.channel = d.waitlist.listener(i, client), d.waitlist.channel
		d.nodes = append(d.nodes, n)
		d.unsentLimit = max(d.unsentLimit, c.serverTimeout+n.conn.Overrun())
	}
	return d
}

var (
	_ driver.Driver = (*redlock)(nil)
	_ driver.Lock   = (*lock)(nil)
)

func (d *redlock) Guarantees() locker.Guarantees { return Guarantees() }

func (d *redlock) Lock(req locker.Request, lost func(error)) (driver.Lock, error) {
	if err := d.ttls().Check(req.TTL); err != nil {
		return nil, err
	}
	l := &lock{d: d, key: lockKey(d.prefix, req.Name, req.Slot), ttl: d.ttls().RoundUp(req.TTL), said: said(driver.LabelOf(req))}
	if !req.NoWait {
		l.ticket = time.Now().UnixMicro()
	}
	return l, nil
}

// timeoutFor bounds a request to one server. An answer that takes half of the TTL is of little use,
// and the engine renews a lease that is that old before it hands it out.
func (d *redlock) timeoutFor(ttl time.Duration) time.Duration { return min(d.serverTimeout, ttl/2) }

// spawn runs f in a goroutine, which Close waits for. An operation that has begun does so after
// Close as well, because it needs the results.
func (d *redlock) spawn(f func()) { d.workers.run(taskFunc(f), 0) }

// Close ends the subscriptions. It waits for requests that are still to be answered, for as long as
// a server may take.
func (d *redlock) Close(ctx context.Context) error {
	d.closing.Store(true)
	var errs []error
	if d.workers.wait(ctx) != nil {
		errs = append(errs, d.unanswered())
	}
	d.workers.close()
	for _, n := range d.nodes {
		n.conn.Close()
	}
	for _, n := range d.nodes {
		errs = append(errs, n.listener.Close(ctx))
	}
	if d.done != nil {
		errs = append(errs, d.done())
	}
	return errors.Join(errs...)
}

// unanswered is the error of a Close whose time is up before all requests have ended. It names the
// servers with such requests, and those that were silent: renewals aren't among the requests that are
// counted.
func (d *redlock) unanswered() error {
	var from []string
	for _, n := range d.nodes {
		if n.waiting.Load() > 0 || n.silent.Load() {
			from = append(from, n.name())
		}
	}
	err := fmt.Errorf("requests are still to be answered: %w", locker.ErrNoAnswer)
	if len(from) == 0 {
		return err
	}
	return fmt.Errorf("%w from %s", err, strings.Join(from, ", "))
}

// explain makes an error of the answers to an attempt in which too few servers took part. Servers
// that nobody waited for in the end are not in it.
func (d *redlock) explain(all answers) error {
	why, wait := make(map[int]error), ""
	for i, r := range all {
		switch {
		case r.err != nil:
			why[i] = r.err
		case r.verdict == waits:
			wait = " (new servers and a new prefix have to wait as well, once; see WithNewCluster, in a URL: new_cluster)"
			why[i] = fmt.Errorf("%w: %v more", errForgetful, r.left)
		case r.verdict == differs:
			why[i] = wrongMaxTTL(r.max)
		case r.verdict == gone:
			why[i] = errReleased
		}
	}
	d.excuse(why)
	if all.clocksTooFarApart() {
		return d.failure("no majority can agree to a token: the clocks of some servers are, or were, more than a minute apart", why)
	}
	return d.failure(fmt.Sprintf("no majority takes part: %d of %d servers don't%s", len(why), len(d.nodes), wait), why)
}

// excuse leaves only their texts of errors that no wait can change, unless a majority has such errors. Otherwise
// the call may succeed when other servers take part again, and what it returns must not match such an error. A
// majority that has them isn't waited for: where another server is away as well, it may be missed.
func (d *redlock) excuse(why map[int]error) {
	n := 0
	for _, err := range why {
		if isLasting(err) {
			n++
		}
	}
	if n >= majority(len(d.nodes)) {
		return
	}
	for i, err := range why {
		if isLasting(err) {
			why[i] = errors.New(err.Error())
		}
	}
}

// isLasting reports whether err says that the same call would fail again.
func isLasting(err error) bool {
	return errors.Is(err, locker.ErrOption) || errors.Is(err, errors.ErrUnsupported)
}

// failure is an error with the errors of some servers, in one line. errors.Is holds for each of
// them.
func (d *redlock) failure(what string, why map[int]error) error {
	e := &failure{text: what}
	for i, n := range d.nodes {
		if err, ok := why[i]; ok {
			if err == nil {
				err = locker.ErrNoAnswer
			}
			e.causes = append(e.causes, fmt.Errorf("%s: %w", n.name(), err))
		}
	}
	return e
}

type failure struct {
	text   string
	causes []error
}

func (e *failure) Error() string {
	parts := []string{e.text}
	for _, err := range e.causes {
		parts = append(parts, err.Error())
	}
	return strings.Join(parts, "; ")
}

func (e *failure) Unwrap() []error { return slices.Clone(e.causes) }
