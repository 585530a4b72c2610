package zkconn

import "encoding/binary"

// frames finds the packets in a stream: each is its length, in four bytes, and so many bytes.
type frames struct {
	head [4 + headSize]byte // of the present packet
	got  int                // bytes of the present packet
}

// headSize is how much is looked at: the answer to a request to connect with its password, and of a reply the header and the result of its
// first operation.
const headSize = 36

// feed takes in the next bytes of the stream, and calls each with the first bytes of every packet that is complete.
func (f *frames) feed(data []byte, each func(head []byte)) {
	for len(data) > 0 {
		end := 4 // of what is being collected
		if size, known := f.size(); known {
			end = 4 + size
		}
		n := min(end-f.got, len(data))
		if f.got < len(f.head) {
			copy(f.head[f.got:], data[:n])
		}
		f.got += n
		data = data[n:]
		if size, known := f.size(); known && f.got == 4+size {
			each(f.head[4:min(f.got, len(f.head))])
			f.got = 0
		}
	}
}

// size is the length of the present packet, once that is known.
func (f *frames) size() (n int, known bool) {
	return int(binary.BigEndian.Uint32(f.head[:])), f.got >= 4
}

// greeting is the answer to a request to connect: version, timeout in milliseconds, session, password.
type Greeting struct {
	Timeout  int32
	Session  int64 // 0: the session that was asked for has expired
	Password [PasswordSize]byte
}

const (
	PasswordSize = 16
	greetingSize = 4 + 4 + 8 + 4 + PasswordSize // and a byte more from ZooKeeper 3.4 on
)

// isGreetingSize tells a greeting from what other services answer: "HTTP" would be a length of more than a gigabyte.
func isGreetingSize(n int) bool { return n == greetingSize || n == greetingSize+1 }

func parseGreeting(head []byte) (g Greeting, ok bool) {
	if len(head) < greetingSize || binary.BigEndian.Uint32(head[16:]) != PasswordSize {
		return g, false
	}
	return Greeting{
		Timeout:  int32(binary.BigEndian.Uint32(head[4:])),
		Session:  int64(binary.BigEndian.Uint64(head[8:])),
		Password: [PasswordSize]byte(head[20:]),
	}, true
}

// isEvent reports whether a packet is the event of a watch: no reply to anything.
func isEvent(head []byte) bool {
	return xidOf(head) == -1
}

// xidOf is the number of a reply, or of a request after its length; 0: there is none.
func xidOf(head []byte) int32 {
	if len(head) < 4 {
		return 0
	}
	return int32(binary.BigEndian.Uint32(head))
}

// isOfNoSession reports whether a reply says that the session isn't this connection's: it has ended, or moved to another one. Where
// several operations were asked for in one request the header doesn't say it, but the result of the first: -1 for an error, a byte that is
// 0, and which one. (The data of a node that has none begins with -1 as well; the zxid that follows never looks like these errors.)
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

// codeOf is the error in the header of a reply.
func codeOf(head []byte) int32 {
	if len(head) < 16 {
		return 0
	}
	return int32(binary.BigEndian.Uint32(head[12:]))
}

// isGetData reports whether a packet that is sent, other than the first, reads the data of a node: length, number, what is
// asked for, path, and whether to watch that.
func isGetData(packet []byte) bool {
	const getData = 4
	return isOf(packet, getData)
}

// isAuth reports the same of credentials.
func isAuth(packet []byte) bool {
	const setAuth = 100
	return isOf(packet, setAuth)
}

func isOf(packet []byte, op uint32) bool {
	return len(packet) > 12 && binary.BigEndian.Uint32(packet[8:]) == op
}
