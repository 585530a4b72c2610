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
		if isRefusal(reply[4:]) {
			return false, ErrRefused
		}
	}
	return codeOf(reply[4:]) == 0, nil
}
