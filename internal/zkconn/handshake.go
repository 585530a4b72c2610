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
			a, err := e.openAndEnd(ctx, addr, connect{timeout: ask, auth: e.Auth})
			if err == nil && (a.session == 0 || a.timeout <= 0) {
				err = errForeign
			}
			switch {
			case err == nil:
				return time.Duration(a.timeout) * time.Millisecond, nil
			case !a.dialled:
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

// connect is a request to connect with a session; id 0: with a new one.
type connect struct {
	seen     int64 // a server that doesn't know this transaction yet hangs up; 0: each one answers
	timeout  time.Duration
	id       int64
	password [passwordSize]byte
	auth     []Credentials // servers may demand them before they execute anything (enforce.auth.enabled)
}

// endAnswer is what a server has answered to a request to connect with a session and to end it.
type endAnswer struct {
	greeting
	dialled bool
	closed  bool // the quorum has ended the session now
}

// openAndEnd asks one server to connect with a session and to end it. All requests are sent at once,
// because a server may hear them whose answers are lost. (One that refuses the credentials hangs up
// before it reads the rest.) A session that has ended already is no error, nor is a server that hangs
// up after its greeting.
func (e *Ensemble) openAndEnd(ctx context.Context, addr string, c connect) (a endAnswer, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	conn, err := e.Dial(ctx, "tcp", addr)
	if err != nil {
		return a, err
	}
	a.dialled = true
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) }) // long ago
	defer stop()
	requests := connectRequest(c)
	for _, credentials := range c.auth {
		requests = append(requests, authRequest(credentials)...)
	}
	if _, err := conn.Write(append(requests, closeRequest()...)); err != nil {
		return a, err
	}
	if a.greeting, err = readGreeting(conn); err != nil || a.session == 0 {
		return a, err
	}
	a.closed, err = readClosed(conn)
	return a, err
}

// connectRequest is what a client sends first: version, last zxid, timeout, session, password.
// Session zero, with a password of zeros, asks for a new one.
func connectRequest(c connect) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(4+8+4+8+4+len(c.password)))
	b = binary.BigEndian.AppendUint32(b, 0)
	b = binary.BigEndian.AppendUint64(b, uint64(c.seen))
	b = binary.BigEndian.AppendUint32(b, uint32(c.timeout.Milliseconds()))
	b = binary.BigEndian.AppendUint64(b, uint64(c.id))
	b = binary.BigEndian.AppendUint32(b, uint32(len(c.password)))
	return append(b, c.password[:]...)
}

const (
	closeXid = 1
	authXid  = -4 // as every client has it
)

// authRequest gives credentials: number, operation, type, scheme, secret.
func authRequest(c Credentials) []byte {
	const setAuth = 100
	b := binary.BigEndian.AppendUint32(nil, uint32(4+4+4+4+len(c.Scheme)+4+len(c.Secret)))
	xid := int32(authXid)
	b = binary.BigEndian.AppendUint32(b, uint32(xid))
	b = binary.BigEndian.AppendUint32(b, setAuth)
	b = binary.BigEndian.AppendUint32(b, 0)
	b = append(binary.BigEndian.AppendUint32(b, uint32(len(c.Scheme))), c.Scheme...)
	return append(binary.BigEndian.AppendUint32(b, uint32(len(c.Secret))), c.Secret...)
}

// closeRequest ends the session of a connection.
func closeRequest() []byte {
	const closeSession = -11
	op := int32(closeSession)
	b := binary.BigEndian.AppendUint32(nil, 8)
	b = binary.BigEndian.AppendUint32(b, closeXid)
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

// readClosed reads the answer to a closeRequest, after those to credentials. Where the server hangs
// up without one, nobody knows whether the session has ended. With TLS it may do so without the
// message that this is no interruption.
func readClosed(conn net.Conn) (closed bool, err error) {
	const headerSize = 16 // these answers have nothing else
	reply := make([]byte, 4+headerSize)
	for xidOf(reply[4:]) != closeXid {
		if _, err := io.ReadFull(conn, reply); err != nil {
			return false, Ignore(err, io.EOF, io.ErrUnexpectedEOF)
		}
		if binary.BigEndian.Uint32(reply) != headerSize {
			return false, errForeign
		}
	}
	return codeOf(reply[4:]) == 0, nil
}
