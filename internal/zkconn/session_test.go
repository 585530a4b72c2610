package zkconn

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker/internal/zkconn/zktest"
)

// ensemble is one server that confirms sessions, and answers what a test lets it answer.
type ensemble struct {
	mu      sync.Mutex
	silent  bool
	expired bool            // no session exists
	rude    bool            // it hangs up in place of an answer to the request to end a session
	strict  bool            // it ends no session without credentials
	authed  bool            // it was given credentials
	zxid    int64           // the newest transaction that it knows; 0: 1
	granted []time.Duration // to each request to connect
	ended   []int64         // sessions
}

const (
	shortest, longest = 4 * time.Second, 40 * time.Second
	sessionID         = 7
)

func (e *ensemble) dial(context.Context, string, string) (net.Conn, error) {
	near, far := zktest.NewConnection()
	go func() {
		defer far.Close()
		for e.serve(far) {
		}
	}()
	return near, nil
}

// serve answers the first packet of a connection, or a later one. It is false when the connection ends.
func (e *ensemble) serve(c net.Conn) bool {
	size := make([]byte, 4)
	if _, err := io.ReadFull(c, size); err != nil {
		return false
	}
	r := &zktest.Reader{Data: make([]byte, binary.BigEndian.Uint32(size))}
	if _, err := io.ReadFull(c, r.Data); err != nil {
		return false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(r.Data) >= greetingSize+8 { // a request to connect; other requests of these tests are shorter
		r.Int32()
		if r.Int64() > max(e.zxid, 1) {
			return false
		}
		asked := time.Duration(r.Int32()) * time.Millisecond
		if e.expired {
			_, _ = c.Write(greetingPacket(0, 0))
			return false
		}
		granted := min(max(asked, shortest), longest)
		e.granted = append(e.granted, granted)
		_, _ = c.Write(greetingPacket(int32(granted.Milliseconds()), sessionID))
		return true
	}
	xid, op := r.Int32(), r.Int32()
	if op == -11 {
		if e.strict && !e.authed {
			return false
		}
		e.ended = append(e.ended, sessionID)
		if !e.rude {
			e.confirm(c, xid)
		}
		return false
	}
	if op == 100 {
		e.authed = true
		e.confirm(c, xid)
		return true
	}
	if !e.silent {
		w := new(zktest.Writer)
		w.Int32(xid)
		w.Int64(max(e.zxid, 1))
		w.Int32(-101) // no such node: an answer all the same
		_, _ = c.Write(zktest.Packet(w.Data))
	}
	return true
}

// confirm answers a request that has succeeded.
func (e *ensemble) confirm(c net.Conn, xid int32) {
	w := new(zktest.Writer)
	w.Int32(xid)
	w.Int64(max(e.zxid, 1))
	w.Int32(0)
	_, _ = c.Write(zktest.Packet(w.Data))
}

func (e *ensemble) be(silent bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.silent = silent
}

// The servers don't say what sessions they allow, but show it; the sessions for that are ended.
func TestLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := new(ensemble)
		under := &Ensemble{Servers: []string{"zk:2181"}, Dial: e.dial}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if s, l, err := under.Limits(ctx); err != nil || s != shortest || l != longest {
			t.Errorf("Limits = %v, %v, %v, want %v and %v", s, l, err, shortest, longest)
		}
		if len(e.ended) != 2 {
			t.Errorf("%d sessions were ended, want both", len(e.ended))
		}
	})
}

func TestLimitsWithoutAServer(t *testing.T) {
	refused := errors.New("connection refused")
	under := &Ensemble{Servers: []string{"zk:2181"}, Dial: func(context.Context, string, string) (net.Conn, error) {
		return nil, refused
	}}
	if _, _, err := under.Limits(t.Context()); !errors.Is(err, ErrNoServer) || !errors.Is(err, refused) {
		t.Errorf("Limits = %v, want ErrNoServer and the dialler's error", err)
	}
}

// recorder is what a test sees of a session.
type recorder struct {
	nodes     bool
	session   *Session
	connected int
}

func (r *recorder) Connected(Confirmation) { r.connected++ }
func (*recorder) Lost(error)               {}
func (*recorder) NodeDeleted(string)       {}
func (*recorder) NodeChanged(string)       {}
func (r *recorder) HasNodes() bool         { return r.nodes }
func (r *recorder) Heartbeat()             { _, _ = r.session.ReadRoot() }

const sessionTimeout = 10 * time.Second

func openSession(t *testing.T, e *ensemble, r *recorder) *Session {
	t.Helper()
	under := &Ensemble{Servers: []string{"zk:2181"}, Dial: e.dial}
	r.session = under.New(Config{
		Timeout: sessionTimeout, AnswerTimeout: time.Second, HoldAfter: 100 * time.Millisecond, Interval: 500 * time.Millisecond, Events: r,
	})
	if err := r.session.Open(t.Context()); err != nil {
		t.Fatalf("Open = %v", err)
	}
	return r.session
}

// overAfter waits for the end of a session, and returns how long that took.
func overAfter(t *testing.T, s *Session) time.Duration {
	t.Helper()
	began := time.Now()
	select {
	case <-s.Closed():
	case <-time.After(time.Hour):
		t.Fatal("the session isn't over")
	}
	return time.Since(began)
}

// A session on which nothing is answered is over after its timeout, though each new connection
// confirms it. The servers are asked to end it, with the shortest timeout.
func TestSilentSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, r := new(ensemble), new(recorder)
		s := openSession(t, e, r)
		time.Sleep(time.Minute)
		if s.IsOver() {
			t.Fatalf("the session is over (%v), and its heartbeats were answered", s.Cause())
		}
		e.be(true)
		if took := overAfter(t, s); !errors.Is(s.Cause(), ErrSilent) || took < sessionTimeout-time.Second || took > sessionTimeout+2*time.Second {
			t.Errorf("the session was over after %v because of %v, want ErrSilent after about %v", took, s.Cause(), sessionTimeout)
		}
		if r.connected < 3 {
			t.Errorf("%d connections, want some that confirmed the session while it was silent", r.connected)
		}
		e.mu.Lock()
		defer e.mu.Unlock()
		if !slices.Contains(e.ended, sessionID) || e.granted[len(e.granted)-1] != shortest {
			t.Errorf("the servers were not asked to end the session, with the shortest timeout")
		}
	})
}

// While a session has nodes, answers to reads don't keep it alive.
func TestSessionWithoutAnswersToWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openSession(t, new(ensemble), &recorder{nodes: true})
		if took := overAfter(t, s); !errors.Is(s.Cause(), ErrSilent) || took > sessionTimeout+time.Second {
			t.Errorf("the session was over after %v because of %v, want ErrSilent after %v", took, s.Cause(), sessionTimeout)
		}
	})
}

// A session that was ended doesn't connect again, and its requests fail.
func TestEndedSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := new(ensemble)
		s := openSession(t, e, new(recorder))
		because := errors.New("because")
		s.End(because)
		<-s.Closed()
		connections := len(e.granted)
		if err := s.Ready(t.Context()); !errors.Is(err, ErrOver) || !errors.Is(err, because) {
			t.Errorf("Ready = %v, want ErrOver and the cause", err)
		}
		if _, err := s.Exists("/"); !Broken(err) {
			t.Errorf("Exists = %v, want that the session is over", err)
		}
		time.Sleep(time.Minute)
		if n := len(e.granted); n != connections {
			t.Errorf("it connected %d times more", n-connections)
		}
	})
}
