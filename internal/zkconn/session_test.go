package zkconn

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

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
func (*recorder) Woken()                   {}

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
