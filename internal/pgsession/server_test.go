package pgsession

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"
)

// server is the other end of a session in tests of function calls: it executes them in their order,
// and answers when the test wants.
type server struct {
	conn net.Conn

	mu       sync.Mutex
	executed map[string]int    // by what callText says
	waiting  []string          // executed, without an answer
	holds    bool              // answers wait for next
	fails    map[string]string // SQLSTATE of what fails
	last     chan struct{}     // closed when nothing more is read
}

// serving makes a session with a server.
func serving(t *testing.T) (*Session, *server) {
	t.Helper()
	return servingThrough(t, func(stream net.Conn) net.Conn { return stream })
}

// servingThrough is serving with another stream around the session's end.
func servingThrough(t *testing.T, through func(net.Conn) net.Conn) (*Session, *server) {
	t.Helper()
	mine, theirs := net.Pipe()
	v := &server{conn: theirs, executed: make(map[string]int), fails: make(map[string]string), last: make(chan struct{})}
	backend := pgproto3.NewBackend(theirs, theirs)
	go func() {
		defer close(v.last)
		for {
			message, err := backend.Receive()
			if err != nil {
				return
			}
			if call, ok := message.(*pgproto3.FunctionCall); ok {
				v.execute(callText(call))
			}
		}
	}()
	s := New(&Conn{stream: socket(through(mine)), keyPID: 1}, Settings{})
	s.Start(func(error) {})
	t.Cleanup(func() { s.End(ErrClosed); _ = theirs.Close(); <-v.last })
	return s, v
}

// pipeSocket is a pipe that says it is a socket.
type pipeSocket struct {
	net.Conn
}

// socket makes a socket of a stream with deadlines.
func socket(stream net.Conn) net.Conn {
	if stream.SetReadDeadline(time.Time{}) != nil {
		return stream
	}
	return pipeSocket{Conn: stream}
}

func (pipeSocket) SyscallConn() (syscall.RawConn, error) { return nil, errors.New("it is a pipe") }

func (v *server) execute(call string) {
	v.mu.Lock()
	v.executed[call]++
	v.waiting = append(v.waiting, call)
	holds := v.holds
	v.mu.Unlock()
	if !holds {
		v.next(1)
	}
}

// hold makes the answers wait for next.
func (v *server) hold(holds bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.holds = holds
}

func (v *server) times(call string) int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.executed[call]
}

// next answers so many calls, in one write.
func (v *server) next(n int) {
	v.mu.Lock()
	var answers []byte
	for _, call := range v.waiting[:n] {
		answers = append(answers, v.answer(call)...)
	}
	v.waiting = v.waiting[n:]
	v.mu.Unlock()
	_, _ = v.conn.Write(answers)
}

// answer is the result of a call: the low bits of its argument, whichever function it is.
func (v *server) answer(call string) (b []byte) {
	var function uint32
	var argument uint64
	_, _ = fmt.Sscanf(call, "%d(%x)", &function, &argument)
	if code := v.fails[call]; code != "" {
		b, _ = failure("ERROR", code).Encode(nil)
		b, _ = (&pgproto3.ReadyForQuery{TxStatus: 'I'}).Encode(b)
		return b
	}
	for _, m := range returned(function, argument&0x7f) {
		b, _ = m.Encode(b)
	}
	return b
}

// text is a call as the server sees it.
func text(f Function) string { return fmt.Sprintf("%d(%x)", f.oid, f.argument[:f.size]) }

func wantResult(t *testing.T, what string, c *Call, i int, want int64) {
	t.Helper()
	if got, err := c.Result(i); err != nil || got != want {
		t.Errorf("%s: result %d = %d, %v, want %d", what, i, got, err, want)
	}
}

// call calls a function whose result is n, in a goroutine.
func call(ctx context.Context, s *Session, n int64) chan error {
	done := make(chan error, 1)
	go func() {
		c, err := s.CallFunctions(ctx, time.Hour, AdvisoryUnlock(n))
		if err == nil {
			if got, callErr := c.Result(0); callErr != nil || got != n {
				err = fmt.Errorf("call %d has the answer %d, %w", n, got, callErr)
			}
		}
		done <- err
	}()
	synctest.Wait()
	return done
}

func (s *Session) hasReader() (reads, inBackground bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reader != nil, s.reader == &s.background
}
