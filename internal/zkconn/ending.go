package zkconn

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// How a session is opened and ended, or only ended, on a connection of its own, without go-zookeeper.
//
// Servers may demand credentials before they execute anything (enforce.auth.enabled). A server that
// refuses credentials hangs up, and reads nothing of what follows them.
//
// An address may be another service's, or may become that. So no credentials are sent before a server
// has confirmed a session on the same connection, with one exception: the farewell to a server that
// has confirmed the session last, and doesn't answer any more. Its answers may be lost, and if it
// demands credentials it would not end the session without them.

// connect is a request to connect with a session; id 0: with a new one.
type connect struct {
	seen     int64 // a server that doesn't know this transaction yet hangs up; 0: each one answers
	timeout  time.Duration
	id       int64
	password [passwordSize]byte
	farewell bool   // to the server that has confirmed this session last: all requests are sent at once
	look     string // a node that is looked at before a new session is ended; empty: none
}

// endAnswer is what a server has answered to a request to connect with a session and to end it.
type endAnswer struct {
	greeting // empty unless the session was confirmed
	dialled  bool
	closed   bool // the quorum has ended the session now
	expired  bool // there is no such session, or its end was decided

	agreed bool   // the quorum has answered
	looked bool   // after that the server has said whether the node exists
	origin Origin // of the node; zero: there is none
}

// openAndEnd asks one server to connect with a session and to end it. A session that has ended already
// is no error, nor is a server that hangs up after its greeting.
//
// A session that exists is first ended without credentials, because most servers demand none. Where a
// server has confirmed a session and not ended it, it is asked once more: without the credentials if it
// has refused them, and with them if it was given none. The error is ErrRefused if it refuses them and
// doesn't end the session without them.
func (e *Ensemble) openAndEnd(ctx context.Context, addr string, c connect) (a endAnswer, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	var auth []Credentials
	if c.id == 0 || c.farewell {
		auth = e.Auth
	}
	a, err = e.ask(ctx, addr, c, auth)
	switch {
	case a.session == 0 || a.closed: // nothing is left to be ended
	case len(auth) > 0 && errors.Is(err, ErrRefused):
		return e.endWithout(ctx, addr, c.seen, a)
	case len(auth) < len(e.Auth):
		return e.endWith(ctx, addr, c.seen, a, err)
	}
	return a, err
}

// endWithout ends the session of a, without the credentials that the server has refused.
func (e *Ensemble) endWithout(ctx context.Context, addr string, seen int64, a endAnswer) (endAnswer, error) {
	ended, _ := e.endAgain(ctx, addr, seen, &a, nil)
	if !ended {
		return a, fmt.Errorf("%s: %w", addr, ErrRefused)
	}
	return a, nil
}

// endWith ends the session of a, with the credentials. The server was given none before, and that
// has failed with err, or had no answer.
func (e *Ensemble) endWith(ctx context.Context, addr string, seen int64, a endAnswer, err error) (endAnswer, error) {
	ended, failure := e.endAgain(ctx, addr, seen, &a, e.Auth)
	switch {
	case ended:
		return a, nil
	case errors.Is(failure, ErrRefused):
		return a, fmt.Errorf("%s: %w", addr, ErrRefused)
	case err == nil:
		return a, failure
	}
	return a, err
}

// endAgain asks a server once more to end the session of a, which it has confirmed. It notes in a
// what has become of the session.
func (e *Ensemble) endAgain(ctx context.Context, addr string, seen int64, a *endAnswer, auth []Credentials) (ended bool, err error) {
	c := connect{seen: seen, timeout: time.Millisecond, id: a.session, password: a.password}
	again, err := e.ask(ctx, addr, c, auth)
	a.closed, a.expired = again.closed, again.expired
	return a.closed || a.expired, err
}

// ask is one attempt of openAndEnd, with these credentials. To end a session without credentials all
// requests are sent at once, because a server may read requests although its answers are lost. (A server
// that demands credentials executes the request to connect alone, which shortens the session's timeout.)
func (e *Ensemble) ask(ctx context.Context, addr string, c connect, auth []Credentials) (a endAnswer, err error) {
	conn, err := e.Dial(ctx, "tcp", addr)
	if err != nil {
		return a, err
	}
	a.dialled = true
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) }) // long ago
	defer stop()
	now, later := connectRequest(c), endRequests(auth, c.look)
	if c.farewell || c.id != 0 && len(auth) == 0 {
		now, later = append(now, later...), nil
	}
	if _, err := conn.Write(now); err != nil {
		return a, err
	}
	g, err := readGreeting(conn)
	switch {
	case err != nil:
		return a, err
	case g.session == 0 && c.id != 0:
		a.expired = true
		return a, nil
	case g.session == 0 || g.timeout <= 0:
		return a, errForeign
	}
	a.greeting = g
	if len(later) > 0 {
		_, _ = conn.Write(later) // where it fails there will be no answer
	}
	return a, a.read(conn)
}

// endRequests are requests to end the session of a connection, after the credentials. A node is looked at
// in between, if there is one.
func endRequests(auth []Credentials, node string) (requests []byte) {
	for _, credentials := range auth {
		requests = append(requests, authRequest(credentials)...)
	}
	if node != "" {
		requests = append(requests, lookRequests(node)...)
	}
	return append(requests, closeRequest()...)
}

// read reads the replies to endRequests. Where the server hangs up before it has answered the
// closeRequest, nobody knows whether the session has ended. With TLS it may do so without the message
// that this is no interruption.
func (a *endAnswer) read(conn net.Conn) error {
	for {
		reply, err := readReply(conn)
		switch {
		case err != nil:
			return Ignore(err, io.EOF, io.ErrUnexpectedEOF)
		case isRefusal(reply):
			return ErrRefused
		case xidOf(reply) == closeXid:
			a.closed = codeOf(reply) == 0
			return nil
		}
		a.look(reply)
	}
}
