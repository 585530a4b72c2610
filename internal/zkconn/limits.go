package zkconn

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/fencedlock/locker/driver/kit"
)

// Limits returns the shortest and the longest session that the servers grant. They don't say, but
// they show both: a session that asks for next to nothing gets the shortest, and one that asks for
// very much gets the longest.
func (e *Ensemble) Limits(ctx context.Context) (shortest, longest time.Duration, err error) {
	shortest, i, err := e.granted(ctx, e.Servers, time.Millisecond)
	if err != nil {
		return 0, 0, err
	}
	first := slices.Concat(e.Servers[i:], e.Servers[:i]) // the one that has answered, because the others may be silent
	longest, _, err = e.granted(ctx, first, math.MaxInt32*time.Millisecond)
	return shortest, longest, err
}

// granted asks the servers, one after the other, for a session, and returns the timeout that is
// granted, and by which of them. It fails when no server can be dialled, none is ZooKeeper, or all
// refuse the credentials and leave the session open. A server that doesn't answer may be electing a
// leader with the others, and is asked again. It has its share of the time that is left, so that the
// next ones can still answer.
func (e *Ensemble) granted(ctx context.Context, servers []string, ask time.Duration) (_ time.Duration, by int, _ error) {
	var lastSilent error
	for {
		var credentials, refused, silent error
		for i, addr := range servers {
			share, cancel := shareOf(ctx, len(servers)-i)
			a, err := e.openAndEnd(share, addr, connect{timeout: ask})
			isSlow := isOver(share) && ctx.Err() == nil
			cancel()
			switch {
			case err == nil:
				return time.Duration(a.timeout) * time.Millisecond, i, nil
			case !a.dialled && !isSlow:
				refused = overdueAt(addr, err)
			case errors.Is(err, errForeign):
				refused = fmt.Errorf("%w, from %s", errForeign, addr)
			case isAlert(err):
				refused = fmt.Errorf("%s: %w", addr, err)
			case errors.Is(err, ErrRefused):
				credentials = err
			default:
				silent = overdueAt(addr, err)
			}
		}
		switch {
		case silent != nil:
		case credentials != nil: // which says more than a server that is down
			return 0, 0, fmt.Errorf("%w: %w", ErrNoServer, credentials)
		default:
			return 0, 0, fmt.Errorf("%w: %w", ErrNoServer, refused) // one of them says enough
		}
		if lastSilent == nil || ctx.Err() == nil { // else it was only late
			lastSilent = silent
		}
		if !kit.Sleep(ctx, 100*time.Millisecond) {
			return 0, 0, fmt.Errorf("%w: a server doesn't answer as ZooKeeper, or has no leader, or wants TLS (zks://): %w", ErrNoServer, lastSilent)
		}
	}
}

// leastShare is the time of one server, or a quarter of what is left: less may be too short for a dial.
const leastShare = 500 * time.Millisecond

// shareOf is ctx with one of n equal parts of the time that is left until its deadline, if it has one.
// It is a larger part if that is less than leastShare.
func shareOf(ctx context.Context, n int) (context.Context, context.CancelFunc) {
	until, limited := ctx.Deadline()
	if !limited {
		return context.WithCancel(ctx)
	}
	left := time.Until(until)
	return context.WithTimeout(ctx, max(left/time.Duration(n), min(leastShare, left/4)))
}

// isOver reports whether the deadline of ctx is over. A dial may notice that a moment before ctx ends.
func isOver(ctx context.Context) bool {
	until, limited := ctx.Deadline()
	return limited && !time.Now().Before(until)
}
