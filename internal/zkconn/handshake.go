package zkconn

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"time"

	"github.com/fencedlock/locker/driver/kit"
)

// The few requests that are sent without go-zookeeper, each on a connection of its own: to open a
// session and see how long it may be, and to end one.

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
// granted. It fails when no server can be dialled, or none is ZooKeeper. A server that doesn't
// answer may be electing a leader with the others, and is asked again.
func (e *Ensemble) granted(ctx context.Context, ask time.Duration) (time.Duration, error) {
	var lastSilent error
	for {
		var refused, silent error
		for _, addr := range e.Servers {
			g, dialled, err := e.openAndEnd(ctx, addr, ask, 0, [passwordSize]byte{})
			if err == nil && (g.session == 0 || g.timeout <= 0) {
				err = errForeign
			}
			switch {
			case err == nil:
				return time.Duration(g.timeout) * time.Millisecond, nil
			case !dialled:
				refused = overdueAt(addr, err)
			case errors.Is(err, errForeign):
				refused = fmt.Errorf("%w, from %s", errForeign, addr)
			case isAlert(err):
				refused = fmt.Errorf("%s: %w", addr, err)
			default:
				silent = overdueAt(addr, err)
			}
		}
		if silent == nil {
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

// openAndEnd asks one server to connect with a session (id 0: a new one) and to end it, and returns
// its answer to the former. Both requests are sent at once, because a server may hear them whose
// answers are lost. A session that has ended already is no error.
func (e *Ensemble) openAndEnd(
	ctx context.Context, addr string, timeout time.Duration, id int64,
	password [passwordSize]byte,
) (g greeting, dialled bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	conn, err := e.Dial(ctx, "tcp", addr)
	if err != nil {
		return g, false, err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) }) // long ago
	defer stop()
	if _, err := conn.Write(append(connectRequest(timeout, id, password), closeRequest()...)); err != nil {
		return g, true, err
	}
	if g, err = readGreeting(conn); err != nil {
		return g, true, err
	}
	return g, true, waitForClose(conn)
}

// connectRequest is what a client sends first: version, last zxid, timeout, session, password. The
// zxid is zero, so that a server which knows less than the client has seen answers as well. Session
// zero, with a password of zeros, asks for a new one.
func connectRequest(timeout time.Duration, session int64, password [passwordSize]byte) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(4+8+4+8+4+len(password)))
	b = binary.BigEndian.AppendUint32(b, 0)
	b = binary.BigEndian.AppendUint64(b, 0)
	b = binary.BigEndian.AppendUint32(b, uint32(timeout.Milliseconds()))
	b = binary.BigEndian.AppendUint64(b, uint64(session))
	b = binary.BigEndian.AppendUint32(b, uint32(len(password)))
	return append(b, password[:]...)
}

// closeRequest ends the session of a connection.
func closeRequest() []byte {
	const xid, closeSession = 1, -11
	op := int32(closeSession)
	b := binary.BigEndian.AppendUint32(nil, 8)
	b = binary.BigEndian.AppendUint32(b, xid)
	return binary.BigEndian.AppendUint32(b, uint32(op))
}

// readGreeting reads the answer to a connectRequest.
func readGreeting(conn net.Conn) (greeting, error) {
	size := make([]byte, 4)
	if _, err := io.ReadFull(conn, size); err != nil {
		return greeting{}, err
	}
	n := int(binary.BigEndian.Uint32(size))
	if !isGreetingSize(n) {
		return greeting{}, errForeign
	}
	answer := make([]byte, n)
	if _, err := io.ReadFull(conn, answer); err != nil {
		return greeting{}, err
	}
	if g, ok := parseGreeting(answer); ok {
		return g, nil
	}
	return greeting{}, errForeign
}

// waitForClose waits until a server has ended a session as it was asked. The server then closes the
// connection; with TLS perhaps without the message that this is no interruption.
func waitForClose(conn net.Conn) error {
	_, err := io.Copy(io.Discard, conn)
	return Ignore(err, io.ErrUnexpectedEOF)
}
