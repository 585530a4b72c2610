package zkconn

import (
	"bytes"
	"encoding/binary"
	"slices"
)

// packets finds the packets in a stream: each is its length, in four bytes, and as many bytes.
type packets struct {
	head [4 + headSize]byte // of the present packet
	got  int                // bytes of the present packet
}

// headSize is how much of a packet is looked at: all of the answer to a request to connect, up to
// the password; of a reply the header and the result of its first operation.
const headSize = 36

// feed takes the next bytes of the stream, and calls each with the first bytes of every packet that
// is complete.
func (p *packets) feed(data []byte, each func(head []byte)) {
	for len(data) > 0 {
		end := 4 // of what is being collected
		if size, known := p.size(); known {
			end = 4 + size
		}
		n := min(end-p.got, len(data))
		if p.got < len(p.head) {
			copy(p.head[p.got:], data[:n])
		}
		p.got += n
		data = data[n:]
		if size, known := p.size(); known && p.got == 4+size {
			each(p.head[4:min(p.got, len(p.head))])
			p.got = 0
		}
	}
}

// size is the length of the present packet, once it is known.
func (p *packets) size() (n int, known bool) {
	return int(binary.BigEndian.Uint32(p.head[:])), p.got >= 4
}

// greeting is the answer to a request to connect: version, timeout in milliseconds, session,
// password.
type greeting struct {
	timeout  int32
	session  int64 // 0: the session that was asked for has expired
	password [passwordSize]byte
}

const (
	passwordSize = 16
	greetingSize = 4 + 4 + 8 + 4 + passwordSize // and one more byte since ZooKeeper 3.4
)

// isGreetingSize tells a greeting from other services' answers: as a length, "HTTP" is more than a
// gigabyte.
func isGreetingSize(n int) bool { return n == greetingSize || n == greetingSize+1 }

func parseGreeting(head []byte) (g greeting, ok bool) {
	if len(head) < greetingSize || binary.BigEndian.Uint32(head[16:]) != passwordSize {
		return g, false
	}
	return greeting{
		timeout:  int32(binary.BigEndian.Uint32(head[4:])),
		session:  int64(binary.BigEndian.Uint64(head[8:])),
		password: [passwordSize]byte(head[20:]),
	}, true
}

// isEvent reports whether a packet is a watch's event, which answers nothing.
func isEvent(head []byte) bool { return xidOf(head) == -1 }

// xidOf is the number of a reply, or of a request after its length; 0: there is none.
func xidOf(head []byte) int32 {
	if len(head) < 4 {
		return 0
	}
	return int32(binary.BigEndian.Uint32(head))
}

// zxidOf is the transaction in a reply's header: the newest that the server knew. 0: there is none.
func zxidOf(head []byte) int64 {
	if len(head) < 12 {
		return 0
	}
	return int64(binary.BigEndian.Uint64(head[4:]))
}

// isOfNoSession reports whether a reply says that this connection has no session any more: it has
// ended, or moved to another connection. A reply to several operations doesn't say so in its
// header, but in the result of the first one: -1 for an error, a byte that is 0, and the error.
// (The data of a node without data begin with -1 as well; the zxid that follows never looks like
// these errors.)
func isOfNoSession(head []byte) bool {
	const expired, moved = -112, -118
	const firstResult = 16 + 4 + 1 + 4
	code := codeOf(head)
	if code == 0 && len(head) >= firstResult && int32(binary.BigEndian.Uint32(head[16:])) == -1 && head[20] == 0 {
		code = int32(binary.BigEndian.Uint32(head[21:]))
	}
	return code == expired || code == moved
}

// isRefusal reports whether a reply refuses credentials.
func isRefusal(head []byte) bool {
	const authFailed = -115
	return codeOf(head) == authFailed
}

// codeOf is the error in a reply's header.
func codeOf(head []byte) int32 {
	if len(head) < 16 {
		return 0
	}
	return int32(binary.BigEndian.Uint32(head[12:]))
}

// isGetData reports whether a request, other than the first one, reads a node's data: length,
// number, operation, path, and whether to watch the node.
func isGetData(packet []byte) bool {
	const getData = 4
	return isOf(packet, getData)
}

// unwatched is what the wire takes off a path. go-zookeeper has one way to read a node's data and to
// watch nothing, and the wire makes watches of what is read in that way: so Session.Get says by the
// path that it wants none. Nobody has nodes there, because /zookeeper is the servers' own.
const unwatched = "/zookeeper/unwatched"

// withWatch returns a request that reads a node's data with the watch that it is to set: none, if
// the path begins with unwatched.
func withWatch(packet []byte) []byte {
	const pathAt = 16
	packet = slices.Clone(packet)
	path, ok := bytes.CutPrefix(packet[min(pathAt, len(packet)):], []byte(unwatched))
	if !ok {
		packet[len(packet)-1] = 1
		return packet
	}
	for _, at := range []int{0, pathAt - 4} { // the lengths of the packet and of the path
		length := binary.BigEndian.Uint32(packet[at:])
		binary.BigEndian.PutUint32(packet[at:], length-uint32(len(unwatched)))
	}
	return append(packet[:pathAt], path...)
}

// isAuth reports whether a request, other than the first one, gives credentials.
func isAuth(packet []byte) bool {
	const setAuth = 100
	return isOf(packet, setAuth)
}

func isOf(packet []byte, op uint32) bool {
	return len(packet) > 12 && binary.BigEndian.Uint32(packet[8:]) == op
}
