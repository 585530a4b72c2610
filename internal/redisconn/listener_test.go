package redisconn_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencedlock/locker/internal/redisconn"
)

// server knows SUBSCRIBE and PING, on pipes, which a fake clock knows.
type server struct {
	mu    sync.Mutex
	conns []net.Conn // that have subscribed
	all   []net.Conn
	open  int      // of them
	cut   net.Conn // nothing gets through on it any more
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
	for r := bufio.NewReader(c); ; {
		command, err := readCommand(r)
		if err != nil {
			return
		}
		answer := "-ERR unknown command\r\n"
		switch strings.ToLower(command[0]) {
		case "subscribe":
			answer = fmt.Sprintf("*3\r\n$9\r\nsubscribe\r\n$%d\r\n%s\r\n:1\r\n", len(command[1]), command[1])
		case "ping":
			answer = "*2\r\n$4\r\npong\r\n$0\r\n\r\n"
		}
		s.mu.Lock()
		cut := s.cut == c
		if command[0] == "subscribe" && !cut {
			s.conns = append(s.conns, c)
		}
		s.mu.Unlock()
		if cut {
			continue
		}
		if _, err := io.WriteString(c, answer); err != nil {
			return
		}
	}
}

func readCommand(r *bufio.Reader) ([]string, error) {
	line := func(prefix string) (int, error) {
		text, err := r.ReadString('\n')
		if err != nil {
			return 0, err
		}
		return strconv.Atoi(strings.TrimPrefix(strings.TrimSpace(text), prefix))
	}
	n, err := line("*")
	if err != nil {
		return nil, err
	}
	words := make([]string, n)
	for i := range words {
		size, err := line("$")
		if err != nil {
			return nil, err
		}
		data := make([]byte, size+2)
		if _, err := io.ReadFull(r, data); err != nil {
			return nil, err
		}
		words[i] = string(data[:size])
	}
	return words, nil
}

func (s *server) subscriptions() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}

// say sends a message to the last one who has subscribed.
func (s *server) say(message string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, _ = fmt.Fprintf(s.conns[len(s.conns)-1], "*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$%d\r\n%s\r\n", len(message), message)
}

func (s *server) change(f func(s *server)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(s)
}

// heard is what a Listener has told.
type heard struct {
	mu       sync.Mutex
	waits    bool
	stood    int
	messages []string
}

func (h *heard) count() (stood, messages int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.stood, len(h.messages)
}

// listen runs a test with a Listener that has been started, on a clock of its own.
func listen(t *testing.T, waits bool, test func(s *server, l *redisconn.Listener, h *heard)) {
	synctest.Test(t, func(t *testing.T) {
		s, h := &server{}, &heard{waits: waits}
		client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", Dialer: s.dial, Protocol: 2, DisableIdentity: true, MaxRetries: -1})
		l := redisconn.NewListener(client, "c", redisconn.Events{
			Waiting: func() bool { return h.waits },
			Stands: func(context.Context) {
				h.mu.Lock()
				defer h.mu.Unlock()
				h.stood++
			},
			Hears: func(_ context.Context, message string) {
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
		if l.Start(); l.Stands() {
			t.Error("it stands after Close")
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

func TestListenerHearsAgainAfterABreak(t *testing.T) {
	listen(t, true, func(s *server, l *redisconn.Listener, h *heard) {
		for round := 1; round <= 3; round++ {
			if !l.Stands() {
				t.Fatalf("in round %d the subscription doesn't stand", round)
			}
			s.say("hello")
			synctest.Wait()
			if stood, messages := h.count(); stood != round || messages != round {
				t.Errorf("in round %d: told %d times that it stands, and %d messages", round, stood, messages)
			}
			s.change(func(s *server) { _ = s.conns[len(s.conns)-1].Close() })
			time.Sleep(time.Second)
		}
	})
}

// A connection that was cut in silence is noticed while somebody waits.
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
			if n := s.subscriptions(); n != want || !l.Stands() {
				t.Errorf("20 s after the cut, while somebody waits (%v): %d subscriptions were made, want %d; it stands: %v", waits, n, want, l.Stands())
			}
		})
	}
}

// Whoever sees that messages don't arrive has the subscription made anew, but not one that was made just now.
func TestListenerIsDistrusted(t *testing.T) {
	listen(t, true, func(s *server, l *redisconn.Listener, h *heard) {
		for range 100 {
			l.Distrust()
		}
		if !l.Stands() {
			t.Error("a subscription that has just been made was ended")
		}
		time.Sleep(2 * time.Second)
		for range 100 {
			l.Distrust()
		}
		time.Sleep(time.Second)
		if n := s.subscriptions(); n != 2 || !l.Stands() {
			t.Errorf("%d subscriptions, stands: %v, want a second one", n, l.Stands())
		}
	})
}
