package redisconn_test

import (
	"context"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencedlock/locker/internal/redisconn"
	"github.com/fencedlock/locker/internal/redisconn/redistest"
)

// server knows SUBSCRIBE and PING. Its connections are pipes, so that they work with a fake clock.
type server struct {
	mu    sync.Mutex
	full  bool       // it refuses to subscribe
	conns []net.Conn // that have subscribed
	all   []net.Conn
	open  int      // of them
	cut   net.Conn // nothing gets through on it
	brief bool     // it ends a connection soon after it has subscribed
}

func (s *server) dial(context.Context, string, string) (net.Conn, error) {
	near, far := net.Pipe()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open++
	s.all = append(s.all, far)
	go s.serve(far)
	return near, nil
}

func (s *server) serve(c net.Conn) {
	defer func() {
		_ = c.Close()
		s.mu.Lock()
		defer s.mu.Unlock()
		s.open--
	}()
	redistest.Serve(c, func(command []string) string {
		s.mu.Lock()
		defer s.mu.Unlock()
		switch verb := strings.ToLower(command[0]); {
		case s.cut == c:
			return redistest.Silence
		case verb == "subscribe" && s.full:
			return "-ERR max number of clients reached\r\n"
		case verb == "subscribe":
			s.conns = append(s.conns, c)
			if s.brief {
				time.AfterFunc(time.Millisecond, func() { _ = c.Close() })
			}
			return redistest.Confirm(command[1])
		case verb == "ping":
			return "*2\r\n$4\r\npong\r\n$0\r\n\r\n" // to a subscriber
		}
		return "-ERR unknown command\r\n"
	})
}

func (s *server) subscriptions() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}

// say sends a message to the last subscriber.
func (s *server) say(message string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, _ = io.WriteString(s.conns[len(s.conns)-1], redistest.Message("c", message))
}

func (s *server) change(f func(s *server)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(s)
}

// heard counts the events of a Listener.
type heard struct {
	mu        sync.Mutex
	waits     bool
	confirmed int
	messages  []string
}

func (h *heard) count() (confirmed, messages int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.confirmed, len(h.messages)
}

// listen runs a test with a Listener that was started, on a fake clock.
func listen(t *testing.T, waits bool, test func(s *server, l *redisconn.Listener, h *heard)) {
	synctest.Test(t, func(t *testing.T) {
		s, h := &server{}, &heard{waits: waits}
		client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", Dialer: s.dial, Protocol: 2, DisableIdentity: true, MaxRetries: -1})
		l := redisconn.NewListener(client, "c", redisconn.Events{
			Waiting: func() bool { return h.waits },
			Subscribed: func(context.Context) {
				h.mu.Lock()
				defer h.mu.Unlock()
				h.confirmed++
			},
			Message: func(_ context.Context, message string) {
				h.mu.Lock()
				defer h.mu.Unlock()
				h.messages = append(h.messages, message)
			},
		})
		l.Start()
		l.Start()
		synctest.Wait()
		test(s, l, h)
		if err := l.Close(t.Context()); err != nil {
			t.Errorf("Close = %v, want nil", err)
		}
		if l.Start(); l.Subscribed() {
			t.Error("it is subscribed after Close")
		}
		_ = client.Close()
		synctest.Wait()
		s.change(func(s *server) {
			if s.open > 0 {
				t.Errorf("%d connections are open after Close", s.open)
				for _, c := range s.all {
					_ = c.Close()
				}
			}
		})
	})
}

func TestListenerSubscribesAgain(t *testing.T) {
	listen(t, true, func(s *server, l *redisconn.Listener, h *heard) {
		for round := 1; round <= 3; round++ {
			if !l.Subscribed() {
				t.Fatalf("in round %d it isn't subscribed", round)
			}
			s.say("hello")
			synctest.Wait()
			if confirmed, messages := h.count(); confirmed != round || messages != round {
				t.Errorf("in round %d: %d subscriptions were confirmed and %d messages were heard, want one each a round", round, confirmed, messages)
			}
			s.change(func(s *server) { _ = s.conns[len(s.conns)-1].Close() })
			time.Sleep(time.Second)
		}
	})
}

// A server or a proxy that ends each subscription at once isn't asked for another one without end.
func TestListenerPausesAfterShortSubscriptions(t *testing.T) {
	listen(t, true, func(s *server, _ *redisconn.Listener, h *heard) {
		s.change(func(s *server) {
			s.brief = true
			_ = s.conns[0].Close()
		})
		time.Sleep(time.Minute)
		if confirmed, _ := h.count(); confirmed < 40 || confirmed > 200 {
			t.Errorf("%d subscriptions in a minute, each of which ends at once, want about one a second", confirmed)
		}
		s.change(func(s *server) { s.brief = false })
		time.Sleep(5 * time.Second)
		before, _ := h.count()
		s.change(func(s *server) { _ = s.conns[len(s.conns)-1].Close() })
		time.Sleep(50 * time.Millisecond)
		if n, _ := h.count(); n != before+1 {
			t.Errorf("%d subscriptions in the moment after one that has lasted has ended, want 1", n-before)
		}
	})
}

// A connection that was cut silently is noticed while somebody waits.
func TestListenerNoticesSilence(t *testing.T) {
	for _, waits := range []bool{true, false} {
		listen(t, waits, func(s *server, l *redisconn.Listener, h *heard) {
			time.Sleep(time.Minute) // nothing happens, and pings are answered
			if n := s.subscriptions(); n != 1 {
				t.Errorf("%d connections in a quiet minute, want 1", n)
			}
			s.change(func(s *server) { s.cut = s.conns[0] })
			time.Sleep(20 * time.Second)
			want := 1
			if waits {
				want = 2
			}
			if n := s.subscriptions(); n != want || !l.Subscribed() {
				t.Errorf("20 s after the cut, while somebody waits (%v): %d subscriptions were made, want %d; it is subscribed: %v", waits, n, want, l.Subscribed())
			}
		})
	}
}

// A caller that sees that messages don't arrive has the subscription made again, but not one that
// was made just now.
func TestListenerResubscribes(t *testing.T) {
	listen(t, true, func(s *server, l *redisconn.Listener, h *heard) {
		for range 100 {
			l.Resubscribe()
		}
		if !l.Subscribed() {
			t.Error("a subscription that has just been made was ended")
		}
		time.Sleep(2 * time.Second)
		for range 100 {
			l.Resubscribe()
		}
		time.Sleep(time.Second)
		if n := s.subscriptions(); n != 2 || !l.Subscribed() {
			t.Errorf("%d subscriptions, subscribed: %v, want a second one", n, l.Subscribed())
		}
	})
}

// A subscription that is missing for longer than a moment has a reason, until it is confirmed.
func TestListenerSaysWhyItFails(t *testing.T) {
	listen(t, true, func(s *server, l *redisconn.Listener, _ *heard) {
		time.Sleep(time.Minute + time.Second) // between two checks: a pipe has no buffer for both ends' requests
		if err := l.Failure(); err != nil {
			t.Errorf("while it is subscribed: Failure = %v, want nil", err)
		}
		s.change(func(s *server) {
			s.full = true
			_ = s.conns[0].Close()
		})
		time.Sleep(1500 * time.Millisecond)
		if err := l.Failure(); err != nil || l.Subscribed() {
			t.Errorf("for a moment without a subscription: Failure = %v, want nil; it is subscribed: %v", err, l.Subscribed())
		}
		time.Sleep(time.Second)
		if err := l.Failure(); err == nil || !strings.Contains(err.Error(), "max number of clients") {
			t.Errorf("without a subscription: Failure = %v, want what the server says", err)
		}
		s.change(func(s *server) { s.full = false })
		time.Sleep(2 * time.Second)
		if err := l.Failure(); err != nil || !l.Subscribed() {
			t.Errorf("when it is subscribed again: Failure = %v, want nil; it is subscribed: %v", err, l.Subscribed())
		}
	})
}
