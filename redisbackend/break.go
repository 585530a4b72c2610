package redisbackend

import (
	"context"
	"fmt"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/internal/redisconn"
)

// An operator who takes a lock away marks the value of its key, or deletes the key: see break.lua. A
// renewal that doesn't find its owner there looks for the mark, or for the breach in the tombstone.

var (
	breakScript    = loadScript("break.lua", 0)
	breakOneScript = loadScript("break_one.lua", 1)
)

var _ driver.Breaker = (*redisDriver)(nil)

// shortestTombstone is how long the breach is kept at least, also if the lease is nearly over.
const shortestTombstone = time.Minute

// Break looks for the owner of the lease, because a tombstone is the owner's. The script compares it
// and the token.
func (d *redisDriver) Break(
	ctx context.Context, name string, token locker.Token, breach locker.Breach,
) (locker.Effect, error) {
	s, err := d.inspect(ctx, name, breach.Slot, 0)
	if err != nil { // inspect has explained it
		return locker.Effect{}, noBreaker(err)
	}
	if s.Holder == nil || s.Holder.Token != token {
		return locker.Effect{}, locker.ErrNotHolder
	}
	r := request{
		script: breakScript, key: s.Key, owner: s.Holder.Owner, ttl: max(s.Holder.Expires, d.ttl, shortestTombstone),
		taking: &taking{token: int64(token), breach: driver.FormatBreach(breach)},
	}
	if breach.AtOnce {
		r.taking.mode = takeNow
	}
	if d.router.conn.Cluster != nil {
		r.script = breakOneScript
		if breach.AtOnce { // first, so that nothing can arrive in between
			tomb := request{script: tombstoneOneScript, key: r.key, owner: r.owner, ttl: r.ttl}
			if a := d.router.askAside(ctx, tomb); a.err != nil && !tomb.script.hasNoRoom(a.err) {
				return locker.Effect{}, noBreaker(permissionsFor(d.prefix).Explain(a.err))
			}
		}
	}
	a := d.router.askAside(ctx, r)
	switch {
	case a.err != nil:
		return locker.Effect{}, noBreaker(permissionsFor(d.prefix).Explain(a.err))
	case a.outcome == held: // and marked
		return locker.Effect{Within: withinOf(a.left)}, nil
	case a.outcome == granted: // until now
		return locker.Effect{}, nil
	case a.copyInFlight: // it held the lock a moment ago: an earlier copy has ended it, or its holder has seen the mark
		return locker.Effect{}, nil
	}
	return locker.Effect{}, locker.ErrNotHolder
}

// withinOf is how long a lease lasts that has so much left on the server, which rounds down; 0: it
// never ends by time, because somebody has removed its expiry.
func withinOf(left time.Duration) time.Duration {
	if left < 0 {
		return 0
	}
	return left + time.Millisecond
}

// noBreaker makes the error of a break, which is explained already. Without a permission nothing was
// executed, unless it was taken away after the Locker was opened, which has tried them all.
func noBreaker(err error) error {
	if redisconn.Denied(err) {
		return fmt.Errorf("%w: %w", locker.ErrNoBreaker, err)
	}
	return err
}

// over notes an answer that the acquisition has no lock or place any more, or not for long, and returns
// the error: the breach, if that is why. It isn't wrapped: see [driver.Broken]. What is marked still
// exists.
func (l *lock) over(r reply, otherwise error) error {
	if r.outcome == gone {
		l.gone()
	}
	if r.breach != nil {
		return driver.Broken(*r.breach)
	}
	return otherwise
}
