package zkconn

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
)

// wire is a go-zookeeper connection to one server. It reads what go-zookeeper keeps to itself, and
// bounds what go-zookeeper doesn't bound: an answer for which it would wait two thirds of the
// session's timeout, when another server could have given it, or forever, when it connects.
//
// It makes watches of reads of a node's data: see Session.GetAndWatch, and Session.Get for those
// that watch nothing.
//
// It holds requests back while the server is silent. Each one that reaches the servers keeps the
// session alive, and when no answer arrives any more there must soon be a last one: that bounds how
// long the nodes of a client exist that receives nothing.
type wire struct {
	net.Conn
	addr          string
	answerTimeout time.Duration // how long requests may be without an answer while nothing else is answered
	holdAfter     time.Duration // after how much of that no further requests are sent until it answers
	served        func()        // is called for each answer, but for those to credentials

	mu       sync.Mutex
	arrived  sync.Cond // something has arrived, or reading has failed
	in       packets
	waiting  int       // requests without an answer
	since    time.Time // while there are any: when the first one was sent, or something has arrived later
	deadline time.Time // for reads, as go-zookeeper has set it
	sent     driver.Instant
	seen     int64          // the newest transaction in an answer
	greeting *timedGreeting // nil: not yet
	auth     int32          // the number of the last request that gives credentials
	refused  bool           // the credentials were refused
	failure  error          // why nothing more is read
}

// timedGreeting is the answer to the request to connect, with the times of both.
type timedGreeting struct {
	greeting
	sent, answered driver.Instant
}

func newWire(conn net.Conn, addr string, answerTimeout, holdAfter time.Duration, served func()) *wire {
	w := &wire{Conn: conn, addr: addr, answerTimeout: answerTimeout, holdAfter: holdAfter, served: served}
	w.arrived.L = &w.mu
	return w
}

// Write never fails, because go-zookeeper reports a failed write twice, to the request and again
// with all pending ones, and blocks forever on the second report if nobody receives it: credentials
// that are given again after a connect always trigger this. Instead, a connection that can't be
// written to is closed, and go-zookeeper's reader reports that to all pending requests.
func (w *wire) Write(data []byte) (int, error) {
	if packet, ok := w.admit(data); ok {
		if _, err := w.Conn.Write(packet); err != nil {
			_ = w.Close()
		}
	}
	return len(data), nil
}

// admit waits while the server is silent, and returns the packet that is to be sent. Without ok the
// server was silent until the connection ended, or is about to end, and nothing is sent.
func (w *wire) admit(data []byte) (packet []byte, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.failure == nil && w.isSilent() {
		w.arrived.Wait()
	}
	if w.isSilent() {
		return nil, false
	}
	switch {
	case w.greeting == nil:
		w.sent = driver.Stamp()
	case isGetData(data):
		data = withWatch(data)
	case isAuth(data):
		w.auth = xidOf(data[4:])
	}
	w.waiting++ // go-zookeeper writes each packet by itself
	if w.waiting == 1 {
		w.since = time.Now()
		_ = w.setDeadline() // it fails where the write will
	}
	return data, true
}

// Close also ends the wait of admit: where go-zookeeper can't decode a packet it reads nothing more, and
// so no failure of Read would end it.
func (w *wire) Close() error {
	w.mu.Lock()
	if w.failure == nil {
		w.failure = net.ErrClosed
	}
	w.arrived.Broadcast()
	w.mu.Unlock()
	return w.Conn.Close()
}

// isSilent reports whether the server owes an answer for so long that it is sent nothing more.
func (w *wire) isSilent() bool {
	return w.greeting != nil && w.waiting > 0 && time.Since(w.since) > w.holdAfter
}

func (w *wire) Read(data []byte) (int, error) {
	n, err := w.Conn.Read(data)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.in.feed(data[:n], w.received)
	if size, known := w.in.size(); w.greeting == nil && known && !isGreetingSize(size) {
		w.failure = errForeign
	}
	if w.failure == nil && err != nil {
		w.failure = err
		w.arrived.Broadcast()
	}
	if errors.Is(w.failure, errForeign) { // go-zookeeper would allocate what the first bytes seem to announce
		return 0, errForeign
	}
	return n, err
}

// received is called with the first bytes of each packet.
func (w *wire) received(head []byte) {
	w.since = time.Now()
	w.arrived.Broadcast()
	if w.greeting == nil {
		w.receiveGreeting(head)
		return
	}
	if isEvent(head) {
		return
	}
	w.waiting--
	w.seen = max(w.seen, zxidOf(head))
	switch {
	case isOfNoSession(head):
		// go-zookeeper would stay, though each request is refused. After the next connect it learns
		// what became of the session.
		_ = w.Conn.Close()
	case isRefusal(head):
		w.refused = true
	case xidOf(head) != w.auth:
		w.served()
	}
}

// receiveGreeting receives the answer to the request to connect.
func (w *wire) receiveGreeting(head []byte) {
	w.waiting--
	size, _ := w.in.size()
	g, ok := parseGreeting(head)
	if !ok || !isGreetingSize(size) {
		w.failure = errForeign
		return
	}
	w.greeting = &timedGreeting{g, w.sent, driver.Now()}
}

// lastSeen is the newest transaction in an answer on this connection, or on an earlier one.
func (w *wire) lastSeen() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.seen
}

// receivedGreeting returns the answer to the request to connect, nil if there is none yet.
func (w *wire) receivedGreeting() *timedGreeting {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.greeting
}

// whyNoGreeting says why the request to connect was not answered; nil: it was, or may still be.
func (w *wire) whyNoGreeting() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.greeting != nil || w.failure == nil:
		return nil
	case errors.Is(w.failure, errForeign):
		return fmt.Errorf("%w, from %s", errForeign, w.addr)
	case errors.Is(Overdue(w.failure), locker.ErrNoAnswer):
		return overdueAt(w.addr, w.failure)
	}
	return fmt.Errorf("%s %w", w.addr, errHungUp)
}

// wasRefused reports whether the server has refused the credentials. It hangs up then, and
// go-zookeeper, which gives them again after each connect, doesn't say why.
func (w *wire) wasRefused() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.refused
}

// SetReadDeadline is called by go-zookeeper before and after it reads a packet.
func (w *wire) SetReadDeadline(t time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.deadline = t
	return w.setDeadline()
}

// setDeadline applies to a read that is under way, too.
func (w *wire) setDeadline() error {
	t := w.deadline
	if w.waiting > 0 {
		t = earlier(t, time.Now().Add(w.answerTimeout))
	}
	return w.Conn.SetReadDeadline(t)
}

func (w *wire) SetWriteDeadline(t time.Time) error {
	if !t.IsZero() {
		t = earlier(t, time.Now().Add(w.answerTimeout))
	}
	return w.Conn.SetWriteDeadline(t)
}

// earlier returns the earlier one of two deadlines; t may be zero, which is none.
func earlier(t, u time.Time) time.Time {
	if t.IsZero() || u.Before(t) {
		return u
	}
	return t
}
