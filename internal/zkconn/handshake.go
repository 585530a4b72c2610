package zkconn

import (
	"encoding/binary"
	"io"
	"net"
)

// The few requests that are sent without go-zookeeper, and their answers.

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

// replyHeaderSize is how long a reply is that has nothing but its header.
const replyHeaderSize = 16

// readReply reads the reply to one of the other requests. None of these is long.
func readReply(conn net.Conn) ([]byte, error) {
	const longest = 1024
	size := make([]byte, 4)
	if _, err := io.ReadFull(conn, size); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(size)
	if n < replyHeaderSize || n > longest {
		return nil, errForeign
	}
	reply := make([]byte, n)
	_, err := io.ReadFull(conn, reply)
	return reply, err
}
