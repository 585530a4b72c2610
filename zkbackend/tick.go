package zkbackend

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"time"
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
// can be dialled; one that doesn't answer may be electing a leader with the others, and is asked again.
func (d *zkDriver) probe(ctx context.Context, ask time.Duration) (time.Duration, error) {
	for {
		var refused error
		var silent error
		for _, addr := range d.servers {
			granted, err := d.probeServer(ctx, addr, ask)
			var dial *dialError
			switch {
			case err == nil:
				return granted, nil
			case errors.As(err, &dial):
				refused = overdue(dial.err)
			default:
				silent = overdue(err)
			}
		}
		if silent == nil {
			return 0, fmt.Errorf("%w: %w", errNoServer, refused) // one of them says enough
		}
		timer := time.NewTimer(100 * time.Millisecond)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return 0, fmt.Errorf("%w: a server doesn't answer as ZooKeeper, or has no leader: %w", errNoServer, silent)
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
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) }) // long ago
	defer stop()
	granted, err := askTimeout(conn, ask)
	if err != nil {
		return 0, err
	}
	return granted, sayGoodbye(conn)
}

// askTimeout is what a client says first: version, last zxid, timeout, session, password. The last two are none.
func askTimeout(conn net.Conn, ask time.Duration) (time.Duration, error) {
	request := make([]byte, 4+4+8+4+8+4+16)
	binary.BigEndian.PutUint32(request, uint32(len(request)-4))
	binary.BigEndian.PutUint32(request[4+4+8:], uint32(ask.Milliseconds()))
	binary.BigEndian.PutUint32(request[4+4+8+4+8:], 16)
	if _, err := conn.Write(request); err != nil {
		return 0, err
	}
	answer := make([]byte, 4+16)
	if _, err := io.ReadFull(conn, answer); err != nil {
		return 0, err
	}
	g, _ := parseGreeting(answer[4:])
	if g.session == 0 || g.timeout <= 0 {
		return 0, errors.New("the answer is not one of ZooKeeper")
	}
	return time.Duration(g.timeout) * time.Millisecond, nil
}

// sayGoodbye ends the session, and waits until the server has hung up.
func sayGoodbye(conn net.Conn) error {
	const xid, closeSession = 1, -11
	request := make([]byte, 12)
	binary.BigEndian.PutUint32(request, 8)
	binary.BigEndian.PutUint32(request[4:], xid)
	op := int32(closeSession)
	binary.BigEndian.PutUint32(request[8:], uint32(op))
	if _, err := conn.Write(request); err != nil {
		return err
	}
	_, err := io.Copy(io.Discard, conn)
	return err
}
