package zktest

import (
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// NewConnection returns both ends of a connection as TCP has it: what is sent waits until it is
// read, and arrives though the sender has hung up. Unlike TCP it lets the time of a bubble pass,
// and unlike net.Pipe it doesn't hold up who writes.
func NewConnection() (near, far net.Conn) {
	there, back := newStream(), newStream()
	return &end{in: back, out: there}, &end{in: there, out: back}
}

// stream is one direction.
type stream struct {
	mu     sync.Mutex
	news   *sync.Cond
	data   []byte
	closed bool        // the sender has hung up
	left   bool        // the receiver has
	limit  time.Time   // of reads
	timer  *time.Timer // for that
}

func newStream() *stream {
	s := new(stream)
	s.news = sync.NewCond(&s.mu)
	return s
}

func (s *stream) read(data []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		switch {
		case s.left:
			return 0, net.ErrClosed
		case !s.limit.IsZero() && !time.Now().Before(s.limit):
			return 0, os.ErrDeadlineExceeded
		case len(s.data) > 0:
			n := copy(data, s.data)
			s.data = s.data[n:]
			return n, nil
		case s.closed:
			return 0, io.EOF
		}
		s.news.Wait()
	}
}

func (s *stream) write(data []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.left {
		return 0, io.ErrClosedPipe
	}
	s.data = append(s.data, data...)
	s.news.Broadcast()
	return len(data), nil
}

func (s *stream) setLimit(t time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.limit = t
	if s.timer != nil {
		s.timer.Stop()
	}
	switch left := time.Until(t); {
	case t.IsZero():
	case left <= 0: // no timer: in a bubble, with the race detector, two that fire at once crash Go 1.26
		s.news.Broadcast()
	default:
		s.timer = time.AfterFunc(left, s.news.Broadcast)
	}
}

// hangUp ends the stream from one side or the other.
func (s *stream) hangUp(side *bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	*side = true
	if s.left && s.timer != nil {
		s.timer.Stop()
	}
	s.news.Broadcast()
}

// end is one end of a connection. Its writes are never held up.
type end struct{ in, out *stream }

func (e *end) Read(data []byte) (int, error)  { return e.in.read(data) }
func (e *end) Write(data []byte) (int, error) { return e.out.write(data) }

func (e *end) Close() error {
	e.out.hangUp(&e.out.closed)
	e.in.hangUp(&e.in.left)
	return nil
}

func (e *end) SetReadDeadline(t time.Time) error {
	e.in.setLimit(t)
	return nil
}

func (e *end) SetDeadline(t time.Time) error  { return e.SetReadDeadline(t) }
func (*end) SetWriteDeadline(time.Time) error { return nil }
func (*end) LocalAddr() net.Addr              { return nil }
func (*end) RemoteAddr() net.Addr             { return nil }
