package zkbackend

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/fencedlock/locker/internal/zkconn"
)

// The servers tell neither their tick nor the longest session that they allow, but they show both: a session that asks
// for next to nothing gets the shortest there is, two ticks by default, and one that asks for very much gets the longest,
// by default twenty. Where somebody has set these by hand they don't agree, and the larger tick is taken: the margins that
// are made of it are too large then, and never too small unless both were set to less.

// tickOf guesses the tick.
func tickOf(shortest, longest time.Duration) time.Duration { return max(shortest/2, longest/20) }

// limits finds the shortest and the longest session that is granted.
func (d *zkDriver) limits(ctx context.Context) (shortest, longest time.Duration, err error) {
	if shortest, err = d.probe(ctx, time.Millisecond); err != nil {
		return 0, 0, err
	}
	longest, err = d.probe(ctx, math.MaxInt32*time.Millisecond)
	return shortest, longest, err
}

// probe asks the servers, one after the other, for a session, and returns the timeout that is granted. It fails when none
// can be dialled, or is one of ZooKeeper; one that doesn't answer may be electing a leader with the others, and is asked again.
func (d *zkDriver) probe(ctx context.Context, ask time.Duration) (time.Duration, error) {
	var trouble error
	for {
		var refused, silent error
		for _, addr := range d.servers {
			granted, err := d.probeServer(ctx, addr, ask)
			var dial *dialError
			switch {
			case err == nil:
				return granted, nil
			case errors.As(err, &dial):
				refused = zkconn.OverdueAt(addr, dial.err)
			case errors.Is(err, zkconn.ErrForeign):
				refused = fmt.Errorf("%w, from %s", zkconn.ErrForeign, addr)
			case zkconn.IsAlert(err):
				refused = fmt.Errorf("%s: %w", addr, err)
			default:
				silent = zkconn.OverdueAt(addr, err)
			}
		}
		if silent == nil {
			return 0, fmt.Errorf("%w: %w", errNoServer, refused) // one of them says enough
		}
		if trouble == nil || ctx.Err() == nil { // else it was only late
			trouble = silent
		}
		timer := time.NewTimer(100 * time.Millisecond)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return 0, fmt.Errorf("%w: a server doesn't answer as ZooKeeper, or has no leader, or wants TLS (zks://): %w", errNoServer, trouble)
		}
	}
}

type dialError struct{ err error }

func (e *dialError) Error() string { return e.err.Error() }
func (e *dialError) Unwrap() error { return e.err }

// probeServer opens a session with one server, and closes it.
func (d *zkDriver) probeServer(ctx context.Context, addr string, ask time.Duration) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	conn, err := d.dial(ctx, "tcp", addr)
	if err != nil {
		return 0, &dialError{err}
	}
	defer conn.Close()
	defer zkconn.Limit(ctx, conn)()
	if _, err := conn.Write(zkconn.ConnectRequest(ask, 0, zkconn.NoPassword)); err != nil {
		return 0, err
	}
	g, err := zkconn.ReadGreeting(conn)
	if err != nil {
		return 0, err
	}
	if g.Session == 0 || g.Timeout <= 0 {
		return 0, zkconn.ErrForeign
	}
	if _, err := conn.Write(zkconn.CloseRequest()); err != nil {
		return 0, err
	}
	return time.Duration(g.Timeout) * time.Millisecond, zkconn.UntilHungUp(conn)
}
