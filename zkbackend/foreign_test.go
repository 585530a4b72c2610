package zkbackend_test

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/zkbackend"
)

// answers is a service that says the same to everybody.
func answers(text string) zkbackend.Option {
	return zkbackend.WithDialer(func(context.Context, string, string) (net.Conn, error) {
		near, far := newConnection()
		go func() {
			_, _ = far.Read(make([]byte, 100))
			_, _ = io.WriteString(far, text)
			_, _ = far.Read(make([]byte, 100)) // what the client makes of that
			_ = far.Close()
		}()
		return near, nil
	})
}

// The port of another service, such as ZooKeeper's own AdminServer, is called that, and not a session with a strange timeout.
func TestPortOfAnotherService(t *testing.T) {
	for name, text := range map[string]string{
		"HTTP":      "HTTP/1.1 400 Illegal character CNTL=0x0\r\nContent-Type: text/html;charset=iso-8859-1\r\n\r\n",
		"short":     "\x00\x00\x00\x04oops",
		"long":      "\x00\x00\x00\x40" + string(make([]byte, 64)),
		"no length": string(make([]byte, 64)),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, err := zkbackend.New(t.Context(), []string{"zk:8080"}, answers(text))
				if err == nil || errors.Is(err, locker.ErrOption) || !contains(err, "not one of ZooKeeper") || !contains(err, "zk:8080") {
					t.Errorf("New = %v, %v, want an error that says whose answer is not one of ZooKeeper", l, err)
				}
			})
		})
	}
}

// go-zookeeper sees nothing of such an answer: it would make room for a gigabyte.
func TestGreetingOfAnotherService(t *testing.T) {
	for name, text := range map[string]string{
		"HTTP":  "HTTP/1.1 400 Bad Request\r\n\r\n",
		"short": "\x00\x00\x00\x04oops",
		"long":  "\x00\x00\x00\x40" + string(make([]byte, 64)),
	} {
		synctest.Test(t, func(t *testing.T) {
			near, far := pipe(t, patience)
			write(t, near, []byte("connect"))
			write(t, far, []byte(text))
			n, err := io.ReadFull(near, make([]byte, 4))
			if n != 0 || err == nil || !contains(err, "not one of ZooKeeper") {
				t.Errorf("%s: Read = %d, %v, want nothing and an error", name, n, err)
			}
		})
	}
}

// Who doesn't answer is named.
func TestTimeoutsNameTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		l := open(t, s)
		fails := func(what, says string) {
			t.Helper()
			if _, err := l.Acquire(t.Context(), "a"); !contains(err, says) || errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: Acquire = %v, want an error that has %q and isn't the caller's", what, err, says)
			}
		}
		s.mu.Lock()
		s.muted = true
		s.mu.Unlock()
		fails("a server that says nothing", "no answer in time from zk:2181")
		s.mu.Lock()
		s.muted, s.down = false, true
		s.mu.Unlock()
		s.sever()
		fails("one that hangs up", "zk:2181 doesn't answer as ZooKeeper: it has no leader")

		_, err := zkbackend.New(t.Context(), []string{"zk:2181"}, zkbackend.WithDialer(func(ctx context.Context, _, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}))
		if !contains(err, "no answer in time from zk:2181") {
			t.Errorf("no way to the server: New = %v, want that it is named", err)
		}
	})
}

// Each request that reaches the servers keeps the session alive, so a server that is silent gets no more of them: until it answers, or
// the connection is given up.
func TestSilentServerGetsNoMoreRequests(t *testing.T) {
	const hold = patience / 4
	for _, answered := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			c, far := newConnection()
			near := zkbackend.NewHoldingWire(c, patience, hold)
			defer near.Close()
			defer far.Close()
			arrived := make(chan byte, 10)
			go func() {
				defer close(arrived)
				for b := make([]byte, 1); ; {
					if _, err := io.ReadFull(far, b); err != nil {
						return
					}
					arrived <- b[0]
				}
			}()
			arrives := func(want string) {
				t.Helper()
				synctest.Wait()
				got := ""
				for len(arrived) > 0 {
					got += string(<-arrived)
				}
				if got != want {
					t.Errorf("answered %v: %q arrived, want %q", answered, got, want)
				}
			}
			write(t, near, []byte("c"))
			write(t, far, greeting(4000, 7))
			go func() {
				for {
					_ = near.SetReadDeadline(time.Time{}) // as go-zookeeper does before each packet
					if _, err := near.Read(make([]byte, 100)); err != nil {
						return
					}
				}
			}()
			arrives("c")
			time.Sleep(time.Minute) // nothing is asked, so that is no silence
			write(t, near, []byte("1"))
			time.Sleep(hold)
			write(t, near, []byte("2"))
			arrives("12")
			time.Sleep(time.Nanosecond) // now it is longer than that
			written := make(chan struct{})
			go func() {
				defer close(written)
				_, _ = near.Write([]byte("3"))
			}()
			arrives("")
			if answered {
				write(t, far, reply(1))
				<-written
				arrives("3")
				return
			}
			<-written // when the connection is given up
			arrives("")
		})
	}
}
