package redlockbackend

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/internal/redisconn"
)

var _ driver.Breaker = (*redlock)(nil)

// shortestTombstone is how long the breach is kept at least, also if the lease is nearly over.
const shortestTombstone = time.Minute

// Break finds out who has the lock on a majority, and asks all servers to mark that lease, or to end
// it. If a server does neither, because it doesn't have the lease, it won't have it later either. So
// when a majority has answered, no majority can renew the lease, and the others are not needed.
//
// If fewer answer, some may have the mark. That costs the lease these servers, and it lives on as
// long as a majority of others renews it.
func (d *redlock) Break(ctx context.Context, name string, token locker.Token, breach locker.Breach) (locker.Effect, error) {
	s, err := d.inspect(ctx, lockKey(d.prefix, name, breach.Slot), 0)
	if err != nil {
		return locker.Effect{}, noBreaker(err, nil)
	}
	if s.Holder == nil || s.Holder.Token != token {
		return locker.Effect{}, locker.ErrNotHolder
	}
	all := d.breakAll(ctx, breakItem(s, breach))
	within, done := all.afterBreak()
	switch {
	case done && breach.AtOnce:
		return locker.Effect{}, nil
	case done:
		return locker.Effect{Within: within}, nil
	case all.count(gone) >= majority(len(all)):
		return locker.Effect{}, locker.ErrNotHolder
	}
	return locker.Effect{}, noBreaker(d.tooFewBroken(all), all)
}

func breakItem(s locker.Status, breach locker.Breach) *item {
	mode := ""
	if breach.AtOnce {
		mode = "now"
	}
	it := newItem(s.Key, s.Holder.Owner, s.Holder.Token, max(s.Holder.Expires, shortestTombstone), 0, driver.FormatBreach(breach))
	it.ticket = mode
	return it
}

// breakAll asks all servers at the same time, and waits for each as long as it may take, or until ctx
// ends.
func (d *redlock) breakAll(ctx context.Context, it *item) answers {
	all := make(answers, len(d.nodes))
	d.each(func(i int) {
		ctx, cancel := context.WithTimeout(ctx, d.serverTimeout)
		defer cancel()
		var r reply
		if left := d.nodes[i].conn.CallAside(ctx, func() { r = d.nodes[i].run(ctx, breakScript, it)[0] }); left != nil {
			all[i] = reply{err: redisconn.Overdue(left)}
			return
		}
		all[i] = r
	})
	return all
}

// afterBreak reports whether no majority can renew the lease any more that was marked or ended, and
// after what time a majority is free of it. 0: by no time.
func (a answers) afterBreak() (within time.Duration, done bool) {
	quorum := majority(len(a))
	if a.count(marked, ended, gone) < quorum || a.count(gone) >= quorum {
		return 0, false
	}
	var left []time.Duration
	for _, r := range a {
		switch {
		case r.err != nil:
		case r.verdict == marked && r.left < 0: // somebody has removed its expiry
		case r.verdict == marked:
			left = append(left, r.left+time.Millisecond) // the server rounds down
		default:
			left = append(left, 0)
		}
	}
	if len(left) < quorum {
		return 0, true
	}
	slices.Sort(left)
	return left[quorum-1], true
}

// tooFewBroken is the error of a break that fewer than a majority has executed.
func (d *redlock) tooFewBroken(all answers) error {
	why := make(map[int]error)
	for i, r := range all {
		if r.err != nil {
			why[i] = permissionsFor(d.prefix).Explain(r.err)
		}
	}
	return d.failure(fmt.Sprintf("%d of %d servers have taken the lock away, and %d must",
		all.count(marked, ended, gone), len(all), majority(len(all))), why)
}

// noBreaker explains the error of a break. If a permission is missing, and no server has changed
// anything, this user can't break locks.
func noBreaker(err error, all answers) error {
	if redisconn.Denied(err) && all.count(marked, ended) == 0 && !all.mayHaveChanged() {
		return fmt.Errorf("%w: %w", locker.ErrNoBreaker, err)
	}
	return err
}

// mayHaveChanged reports whether a server may have executed a request that it hasn't answered.
func (a answers) mayHaveChanged() bool {
	return slices.ContainsFunc(a, func(r reply) bool {
		return r.err != nil && !redisconn.NotExecuted(r.err) && !redisconn.Denied(r.err)
	})
}
