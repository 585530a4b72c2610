package zkconn

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"time"
)

// The few packets that this package sends by itself, on connections that are not go-zookeeper's.

// NoPassword is what a client gives that asks for a new session.
var NoPassword [PasswordSize]byte

// ConnectRequest is what a client says first: version, last zxid, timeout, session, password. The zxid is zero, so that a
// server which knows less than the client has seen answers as well. Session zero asks for a new one.
func ConnectRequest(timeout time.Duration, session int64, password [PasswordSize]byte) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(4+8+4+8+4+len(password)))
	b = binary.BigEndian.AppendUint32(b, 0)
	b = binary.BigEndian.AppendUint64(b, 0)
	b = binary.BigEndian.AppendUint32(b, uint32(timeout.Milliseconds()))
	b = binary.BigEndian.AppendUint64(b, uint64(session))
	b = binary.BigEndian.AppendUint32(b, uint32(len(password)))
	return append(b, password[:]...)
}

// CloseRequest ends the session of a connection.
func CloseRequest() []byte {
	const xid, closeSession = 1, -11
	op := int32(closeSession)
	b := binary.BigEndian.AppendUint32(nil, 8)
	b = binary.BigEndian.AppendUint32(b, xid)
	return binary.BigEndian.AppendUint32(b, uint32(op))
}

var ErrForeign = errors.New("the answer is not one of ZooKeeper")

// ReadGreeting reads the answer to a ConnectRequest.
func ReadGreeting(conn net.Conn) (Greeting, error) {
	size := make([]byte, 4)
	if _, err := io.ReadFull(conn, size); err != nil {
		return Greeting{}, err
	}
	n := int(binary.BigEndian.Uint32(size))
	if !isGreetingSize(n) {
		return Greeting{}, ErrForeign
	}
	answer := make([]byte, n)
	if _, err := io.ReadFull(conn, answer); err != nil {
		return Greeting{}, err
	}
	g, ok := parseGreeting(answer)
	if !ok {
		return g, ErrForeign
	}
	return g, nil
}

// UntilHungUp waits until a server that was asked to end a session has done so. It hangs up then, with TLS maybe without the
// message that this is no interruption.
func UntilHungUp(conn net.Conn) error {
	_, err := io.Copy(io.Discard, conn)
	return Ignore(err, io.ErrUnexpectedEOF)
}

// limit makes the calls of a connection fail when ctx is over, until stop is called.
func Limit(ctx context.Context, conn net.Conn) (stop func() bool) {
	return context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) }) // long ago
}
