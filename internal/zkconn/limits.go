package zkconn

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/fencedlock/locker/driver/kit"
)

// Limits returns the shortest and the longest session that the servers grant. They don't say, but
// they show both: a session that asks for next to nothing gets the shortest, and one that asks for
// very much gets the longest.
func (e *Ensemble) Limits(ctx context.Context) (shortest, longest time.Duration, err error) {
	if shortest, err = e.granted(ctx, time.Millisecond); err != nil {
		return 0, 0, err
	}
	longest, err = e.granted(ctx, math.MaxInt32*time.Millisecond)
	return shortest, longest, err
}

// granted asks the servers, one after the other, for a session, and returns the timeout that is
// granted. It fails when no server can be dialled, none is ZooKeeper, or all refuse the credentials
// and leave the session open. A server that doesn't answer may be electing a leader with the others,
// and is asked again.
func (e *Ensemble) granted(ctx context.Context, ask time.Duration) (time.Duration, error) {
	var lastSilent error
	for {
		var credentials, refused, silent error
		for _, addr := range e.Servers {
			a, err := e.openAndEnd(ctx, addr, connect{timeout: ask})
			switch {
			case err == nil:
				return time.Duration(a.timeout) * time.Millisecond, nil
			case !a.dialled:
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
			return 0, fmt.Errorf("%w: %w", ErrNoServer, credentials)
		default:
			return 0, fmt.Errorf("%w: %w", ErrNoServer, refused) // one of them says enough
		}
		if lastSilent == nil || ctx.Err() == nil { // else it was only late
			lastSilent = silent
		}
		if !kit.Sleep(ctx, 100*time.Millisecond) {
			return 0, fmt.Errorf("%w: a server doesn't answer as ZooKeeper, or has no leader, or wants TLS (zks://): %w", ErrNoServer, lastSilent)
		}
	}
}
