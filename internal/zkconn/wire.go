package zkconn

import (
	"errors"
	"fmt"
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
//
// And it holds requests back while the server is silent. Each one that reaches the servers keeps the session alive, and
// when nothing comes back any more there must soon be a last one: see Guarantees.
type Wire struct {
	net.Conn
	Addr     string
	patience time.Duration // how long a server may leave a request without an answer while it answers nothing else either
	hold     time.Duration // after how much of that no more requests are sent until it answers
	served   func()        // is called for each answer to something other than credentials

	mu      sync.Mutex
	news    sync.Cond // something has arrived, or reading has failed
	in      frames
	waiting int       // requests without an answer
	since   time.Time // while there are any: when the first of them was sent, or something has arrived after that
	idle    time.Time // go-zookeeper's own limit
	sent    driver.Instant
	hello   *Hello // nil: not yet
	auth    int32  // the number of the last request that gives credentials
	refused bool   // they were
	failure error  // why nothing more is read
}

func NewWire(conn net.Conn, addr string, patience, hold time.Duration, served func()) *Wire {
	w := &Wire{Conn: conn, Addr: addr, patience: patience, hold: hold, served: served}
	w.news.L = &w.mu
	return w
}

// hello is the answer to the request to connect.
type Hello struct {
	Greeting
	Sent, Answered driver.Instant
}

// Write never fails. A connection that can't be written to is closed, and go-zookeeper's reader tells that to all who wait for an
// answer. Of a write that fails it tells the request itself, and then again with all others, and waits for ever for somebody to take the
// second message; with the credentials that it gives again after a connect that is certain.
func (w *Wire) Write(data []byte) (int, error) {
	w.mu.Lock()
	for w.failure == nil && w.isSilent() {
		w.news.Wait()
	}
	if w.isSilent() { // and will be: go-zookeeper's reader has ended, or is about to
		w.mu.Unlock()
		return len(data), nil
	}
	if w.hello == nil {
		w.sent = driver.Stamp()
	} else if isGetData(data) {
		data = slices.Clone(data)
		data[len(data)-1] = 1 // "watch"
	} else if isAuth(data) {
		w.auth = xidOf(data[4:])
	}
	w.waiting++ // go-zookeeper writes each packet by itself
	if w.waiting == 1 {
		w.since = time.Now()
		_ = w.setLimit() // it fails where the write will
	}
	w.mu.Unlock()
	if _, err := w.Conn.Write(data); err != nil {
		_ = w.Close()
	}
	return len(data), nil
}

// isSilent reports whether the server owes an answer for so long that no more requests are sent.
func (w *Wire) isSilent() bool {
	return w.hello != nil && w.waiting > 0 && time.Since(w.since) > w.hold
}

func (w *Wire) Read(data []byte) (int, error) {
	n, err := w.Conn.Read(data)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.in.feed(data[:n], w.packet)
	if size, known := w.in.size(); w.hello == nil && known && !isGreetingSize(size) {
		w.failure = ErrForeign
	}
	if w.failure == nil && err != nil {
		w.failure = err
		w.news.Broadcast()
	}
	if errors.Is(w.failure, ErrForeign) { // go-zookeeper would make room for all that the first bytes seem to announce
		return 0, ErrForeign
	}
	return n, err
}

func (w *Wire) packet(head []byte) {
	w.since = time.Now()
	w.news.Broadcast()
	if w.hello == nil {
		w.greet(head)
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

// greet takes in the answer to the request to connect.
func (w *Wire) greet(head []byte) {
	w.waiting--
	size, _ := w.in.size()
	g, ok := parseGreeting(head)
	if !ok || !isGreetingSize(size) {
		w.failure = ErrForeign
		return
	}
	w.hello = &Hello{g, w.sent, driver.Now()}
}

// greeted returns the answer to the request to connect, nil if there is none yet.
func (w *Wire) Greeted() *Hello {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.hello
}

var ErrHungUp = errors.New("doesn't answer as ZooKeeper: it has no leader, or too many connections")

// unanswered is why the request to connect was not answered; nil: it was, or may still be.
func (w *Wire) Unanswered() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.hello != nil || w.failure == nil:
		return nil
	case errors.Is(w.failure, ErrForeign):
		return fmt.Errorf("%w, from %s", ErrForeign, w.Addr)
	case errors.Is(Overdue(w.failure), ErrNoAnswer):
		return OverdueAt(w.Addr, w.failure)
	}
	return fmt.Errorf("%s %w", w.Addr, ErrHungUp)
}

// wasRefused reports whether the server has refused the credentials. It hangs up then, and go-zookeeper, which gives
// them again after each connect, keeps to itself why.
func (w *Wire) WasRefused() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.refused
}

// SetReadDeadline is called by go-zookeeper before and after it reads a packet.
func (w *Wire) SetReadDeadline(t time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.idle = t
	return w.setLimit()
}

// setLimit applies to a read that is under way as well.
func (w *Wire) setLimit() error {
	t := w.idle
	if w.waiting > 0 {
		t = earlier(t, time.Now().Add(w.patience))
	}
	return w.Conn.SetReadDeadline(t)
}

func (w *Wire) SetWriteDeadline(t time.Time) error {
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
