package zkbackend_test

import (
	"context"
	"errors"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/zkbackend"
)

// What go-zookeeper leaves open, or never returns from, one test each.

// It leaves the connection open on which it heard that its session has expired.
func TestConnectionsAreClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		var opened, closed atomic.Int32
		l := open(t, s, zkbackend.WithDialer(func(ctx context.Context, network, addr string) (net.Conn, error) {
			c, err := s.dial(ctx, network, addr)
			if err == nil {
				opened.Add(1)
			}
			return &closing{Conn: c, closed: &closed}, err
		}))
		for range 3 {
			release(t, acquire(t, l, "a"))
			s.mu.Lock()
			s.endSession(s.last)
			s.mu.Unlock()
		}
		release(t, acquire(t, l, "a"))
		eventually(t, "one connection is left", func() bool { return opened.Load()-closed.Load() == 1 })
	})
}

// closing counts connections that are closed.
type closing struct {
	net.Conn
	once   sync.Once
	closed *atomic.Int32
}

func (c *closing) Close() error {
	c.once.Do(func() { c.closed.Add(1) })
	return c.Conn.Close()
}

// Its Close waits for no goroutine, and goroutines may run for two thirds of the session's timeout,
// or forever.
func TestClose(t *testing.T) {
	for what, disturb := range map[string]func(*server){
		"quiet":  func(*server) {},
		"silent": func(s *server) { s.muted = true },
		"down": func(s *server) {
			s.down = true
			for c := range s.conns {
				_ = c.Close()
			}
		},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer(t)
				before := runtime.NumGoroutine()
				l, err := s.new(zkbackend.WithTick(tick), zkbackend.WithDefaultTTL(time.Minute))
				if err != nil {
					t.Fatal(err)
				}
				release(t, acquire(t, l, "a", locker.WithTTL(time.Second)))
				s.mu.Lock()
				disturb(s)
				s.mu.Unlock()
				began := time.Now()
				if err := l.Close(); err != nil {
					t.Errorf("Close = %v, want nil", err)
				}
				if took := time.Since(began); took > 4*time.Second {
					t.Errorf("Close took %v", took)
				}
				s.sever()
				eventually(t, "all goroutines have ended", func() bool { return runtime.NumGoroutine() <= before })
				s.mu.Lock()
				defer s.mu.Unlock()
				if n := len(s.sessions); what == "quiet" && n != 0 {
					t.Errorf("%d sessions are left", n)
				}
			})
		})
	}
}

// Close ends what is just being opened, too.
func TestCloseWhileASessionOpens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		d, err := zkbackend.NewDriver(t.Context(), []string{s.addr}, zkbackend.WithDialer(s.dial), zkbackend.WithTick(tick))
		if err != nil {
			t.Fatal(err)
		}
		s.mu.Lock()
		s.muted = true
		s.mu.Unlock()
		l, err := d.Lock(locker.Request{Name: "a", TTL: time.Minute}, func(error) {})
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		done := make(chan struct{})
		go func() {
			defer close(done)
			if _, err := l.Acquire(context.Background()); err == nil {
				t.Errorf("Acquire = a grant, and the server says nothing")
			}
		}()
		synctest.Wait()
		if err := d.Close(t.Context()); err != nil {
			t.Errorf("Close = %v, want nil", err)
		}
		<-done
		if took := time.Since(began); took > 4*time.Second {
			t.Errorf("Close and Acquire took %v", took)
		}
	})
}

// It blocks forever when it can't write the credentials that it gives again after a connect.
func TestWriteThatFails(t *testing.T) {
	for _, write := range []int{1, 2, 3, 4} {
		synctest.Test(t, func(t *testing.T) {
			s := newServer(t)
			var armed atomic.Bool
			l := open(t, s, zkbackend.WithDigest("joe", "secret"), zkbackend.WithDialer(func(ctx context.Context, network, addr string) (net.Conn, error) {
				c, err := s.dial(ctx, network, addr)
				if armed.Swap(false) {
					c = &failing{Conn: c, left: write - 1}
				}
				return c, err
			}))
			lease := acquire(t, l, "a")
			armed.Store(true)
			s.sever()
			for range 3 {
				if err := lease.Renew(t.Context()); err != nil {
					t.Errorf("after write %d has failed: Renew = %v, want nil", write, err)
				}
			}
			if armed.Load() {
				t.Errorf("nothing was disturbed")
			}
			release(t, lease)
		})
	}
}

// failing is a connection on which some writes succeed and no more.
type failing struct {
	net.Conn
	left int
}

func (c *failing) Write(data []byte) (int, error) {
	if c.left == 0 {
		return 0, errors.New("no route to host")
	}
	c.left--
	return c.Conn.Write(data)
}

// A server that takes a request and doesn't answer would hold it for two thirds of the session's
// timeout.
func TestHungServerIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		l, err := s.new(zkbackend.WithTick(tick), zkbackend.WithDefaultTTL(time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		lease := acquire(t, l, "a", locker.WithTTL(3*time.Second))
		s.mu.Lock()
		for c := range s.conns {
			c.mute = true // new connections work, as those to another server would
		}
		s.mu.Unlock()
		began := time.Now()
		if err := lease.Renew(t.Context()); err != nil {
			t.Errorf("Renew = %v, want nil", err)
		}
		if took := time.Since(began); took > 2*zkbackend.AnswerTimeout(3*time.Second) {
			t.Errorf("Renew took %v", took)
		}
		release(t, lease)
	})
}
