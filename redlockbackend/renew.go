package redlockbackend

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/driver/kit"
)

var errExpired = fmt.Errorf("%w: a majority of the servers don't have it any more", locker.ErrLost)

// Renew asks each server about all leases that are attached to it, many in a request, all servers
// at the same time. A lease is reported as soon as a majority has renewed it, or can't any more. A
// waiter has nothing on the servers that could be renewed.
func (d *redlock) Renew(ctx context.Context, locks []driver.Lock, report func(int, driver.Instant, error)) {
	r := &round{d: d, sent: driver.Stamp(), report: report, leases: make([]*leaseInRound, len(locks)), open: len(locks), done: make(chan struct{})}
	byServer := make([][]int, len(d.nodes))
	for i, l := range locks {
		r.leases[i] = &leaseInRound{attempt: l.(*lock).winning(), why: make(map[int]error)}
		if r.leases[i].attempt == nil {
			r.reportOnce(i, 0, nil)
			continue
		}
		for which := r.leases[i].attempt.attachedTo(); which != 0; {
			server := which.next()
			byServer[server] = append(byServer[server], i)
		}
	}
	// The engine's context ends when Renew returns. Requests to servers that are slower than the
	// majority go on all the same. Otherwise leases would expire there one by one, and would be
	// attached to the other servers alone.
	ongoing, cancel := context.WithoutCancel(ctx), context.CancelFunc(func() {})
	if end, ok := ctx.Deadline(); ok {
		ongoing, cancel = context.WithDeadline(ongoing, end)
	}
	var asking sync.WaitGroup
	for server, which := range byServer {
		if len(which) > 0 {
			asking.Add(1)
			d.spawn(func() {
				defer asking.Done()
				r.ask(ongoing, server, which)
			})
		}
	}
	answered := make(chan struct{})
	d.spawn(func() {
		asking.Wait()
		cancel()
		close(answered)
	})
	select {
	case <-r.done:
	case <-answered:
	case <-ctx.Done():
	}
	r.end()
}

// round is one call of Renew. Servers may still answer when it has returned: that is noted, and not
// reported.
type round struct {
	d      *redlock
	sent   driver.Instant // one for all servers, so that the base doesn't depend on which of them are left
	report func(int, driver.Instant, error)

	mu     sync.Mutex
	leases []*leaseInRound
	open   int           // leases that are not reported yet
	ended  bool          // Renew returns
	done   chan struct{} // closed when all leases are reported
}

type leaseInRound struct {
	attempt   *attempt
	confirmed int           // servers that have renewed it in this round
	why       map[int]error // the errors of others
	reported  bool
}

// ask asks one server about some leases, several parts of them at a time.
func (r *round) ask(ctx context.Context, server int, which []int) {
	n := r.d.nodes[server]
	width := max(min(lanesWidth, n.client.Options().PoolSize/2), 1) // other requests share the pool
	kit.Parallel(width, slices.Collect(slices.Chunk(which, batchSize)), func(part []int) {
		if ctx.Err() != nil || r.d.closing.Load() {
			return
		}
		items := make([]*item, len(part))
		for j, i := range part {
			items[j] = r.leases[i].attempt.renewItem()
		}
		limited, cancel := context.WithTimeout(ctx, r.d.timeoutFor(r.leases[part[0]].attempt.l.ttl))
		replies := n.run(limited, renewScript, items...)
		cancel()
		for j, i := range part {
			r.heard(i, server, replies[j])
		}
	})
}

// heard processes what a server says about a lease.
func (r *round) heard(i, server int, answer reply) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.leases[i]
	base, alive := l.attempt.renewed(server, r.sent, answer)
	switch {
	case answer.err != nil:
		l.why[server] = answer.err
	case answer.verdict == renewed:
		l.confirmed++
	}
	switch {
	case !alive:
		r.reportOnce(i, 0, l.attempt.whyLost())
	case l.confirmed >= majority(len(r.d.nodes)):
		l.attempt.noteReported(base)
		r.reportOnce(i, base, nil)
	}
}

// reportOnce reports a lease, unless it was reported, or the round has ended. r.mu is held, or
// nothing was asked yet.
func (r *round) reportOnce(i int, base driver.Instant, err error) {
	l := r.leases[i]
	if l.reported || r.ended {
		return
	}
	l.reported = true
	r.report(i, base, err)
	if r.open--; r.open == 0 {
		close(r.done)
	}
}

// end reports the leases that were not renewed, and may still exist.
func (r *round) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, l := range r.leases {
		if !l.reported {
			r.reportOnce(i, 0, r.d.failure(fmt.Sprintf("%d of %d servers have renewed it, and %d must",
				l.confirmed, len(r.d.nodes), majority(len(r.d.nodes))), l.why))
		}
	}
	r.ended = true
}

// attachedTo returns the servers that the lease is attached to.
func (a *attempt) attachedTo() servers {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.backers
}

func (a *attempt) renewItem() *item {
	a.mu.Lock()
	defer a.mu.Unlock()
	return newItem(a.l.key, a.owner, a.token, a.l.ttl, 0, nothingSaid)
}

// renewed processes the answer to a renewal, and returns the lease's base. The lease is not alive
// if no majority has it, or if its base is older than one that was reported: then a majority may
// drop it earlier than the engine thinks. Nobody waits for other answers of the round that could prove
// it again: the holder relies on what was reported, and a process that is stopped while it waits would
// learn of the loss too late.
func (a *attempt) renewed(server int, sent driver.Instant, r reply) (base driver.Instant, alive bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.on[server].last = driver.Now()
	a.noteShut(server, r)
	switch {
	case r.err != nil:
	case r.verdict == renewed:
		a.confirm(server, sent)
	default: // gone or marked; or the server has lost its memory, and what exists there proves nothing
		if r.verdict == waits && a.backers.has(server) {
			a.abstain = a.abstain.with(server)
		}
		a.backers = a.backers.minus(server)
		if r.breach != nil && a.breach == nil {
			a.breach = r.breach
		}
		if r.verdict == gone {
			a.remains = a.remains.minus(server)
			if !a.released { // otherwise it was removed by the release
				a.grants = a.grants.minus(server) // another holder may be there
			}
		}
	}
	base, alive = a.base()
	return base, alive && base >= a.reported
}

// whyLost is the error of a lease that no majority has any more, or renews. A breach isn't wrapped:
// see [driver.Broken].
func (a *attempt) whyLost() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.breach != nil {
		return driver.Broken(*a.breach)
	}
	return errExpired
}

// noteReported notes the base that the engine knows.
func (a *attempt) noteReported(base driver.Instant) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.reported = max(a.reported, base)
}
