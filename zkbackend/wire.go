package zkbackend

import (
	"net"
	"slices"
	"sync"
	"time"

	"github.com/fencedlock/locker/driver"
)

// wire is a connection of go-zookeeper's to one server. It tells what go-zookeeper keeps to itself, the timeout that the
// session was granted, and bounds what go-zookeeper doesn't: it gives a server up to two thirds of the session's timeout
// for an answer, when another one could have given it, and ten times as much, or for ever, when it connects.
//
// And it makes a watch of every read of a node's data. go-zookeeper's own watches are of no use to a lock: it keeps
// those that nobody needs any more, sets them again after a connect by a request whose failure it tells nobody, and two
// of its goroutines are in a race when it does so. Events come through its callback, whoever has asked for them; after a
// connect the session asks for them again.
type wire struct {
	net.Conn
	patience time.Duration // how long a server may leave a request without an answer while it answers nothing else either
	served   func()        // is called for each answer to something other than credentials

	mu      sync.Mutex
	in      frames
	waiting int       // requests without an answer
	idle    time.Time // go-zookeeper's own limit
	sent    driver.Instant
	hello   *hello // nil: not yet
	auth    int32  // the number of the last request that gives credentials
	refused bool   // they were
}

// hello is the answer to the request to connect.
type hello struct {
	greeting
	sent, answered driver.Instant
}

// Write never fails. A connection that can't be written to is closed, and go-zookeeper's reader tells that to all who wait for an
// answer. Of a write that fails it tells the request itself, and then again with all others, and waits for ever for somebody to take the
// second message; with the credentials that it gives again after a connect that is certain.
func (w *wire) Write(data []byte) (int, error) {
	w.mu.Lock()
	if w.hello == nil {
		w.sent = driver.Now()
	} else if isGetData(data) {
		data = slices.Clone(data)
		data[len(data)-1] = 1 // "watch"
	} else if isAuth(data) {
		w.auth = xidOf(data[4:])
	}
	w.waiting++ // go-zookeeper writes each packet by itself
	if w.waiting == 1 {
		_ = w.setLimit() // it fails where the write will
	}
	w.mu.Unlock()
	if _, err := w.Conn.Write(data); err != nil {
		_ = w.Close()
	}
	return len(data), nil
}

func (w *wire) Read(data []byte) (int, error) {
	n, err := w.Conn.Read(data)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.in.feed(data[:n], w.packet)
	return n, err
}

func (w *wire) packet(head []byte) {
	if w.hello == nil {
		if g, ok := parseGreeting(head); ok {
			w.hello = &hello{g, w.sent, driver.Exact()}
		}
		w.waiting--
		return
	}
	if isEvent(head) {
		return
	}
	w.waiting--
	switch {
	case isOfNoSession(head):
		_ = w.Close() // go-zookeeper would stay, and each request be refused; where it connects next it hears what became of the session
	case isRefusal(head):
		w.refused = true
	case xidOf(head) != w.auth:
		w.served()
	}
}

// greeted returns the answer to the request to connect, nil if there is none yet.
func (w *wire) greeted() *hello {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.hello
}

// wasRefused reports whether the server has refused the credentials. It hangs up then, and go-zookeeper, which gives
// them again after each connect, keeps to itself why.
func (w *wire) wasRefused() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.refused
}

// SetReadDeadline is called by go-zookeeper before and after it reads a packet.
func (w *wire) SetReadDeadline(t time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.idle = t
	return w.setLimit()
}

// setLimit applies to a read that is under way as well.
func (w *wire) setLimit() error {
	t := w.idle
	if w.waiting > 0 {
		t = earlier(t, time.Now().Add(w.patience))
	}
	return w.Conn.SetReadDeadline(t)
}

func (w *wire) SetWriteDeadline(t time.Time) error {
	if !t.IsZero() {
		t = earlier(t, time.Now().Add(w.patience))
	}
	return w.Conn.SetWriteDeadline(t)
}

// earlier is the earlier one of two limits, of which t may be none.
func earlier(t, u time.Time) time.Time {
	if t.IsZero() || u.Before(t) {
		return u
	}
	return t
}
