package zkbackend_test

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/internal/zkconn/zktest"
	"github.com/fencedlock/locker/zkbackend"
)

// answers is a service that says the same to everybody.
func answers(text string) zkbackend.Option {
	return zkbackend.WithDialer(func(context.Context, string, string) (net.Conn, error) {
		near, far := zktest.NewConnection()
		go func() {
			_, _ = far.Read(make([]byte, 100))
			_, _ = io.WriteString(far, text)
			_, _ = far.Read(make([]byte, 100)) // what the client makes of that
			_ = far.Close()
		}()
		return near, nil
	})
}

// The port of another service, such as ZooKeeper's own AdminServer, is called that, and not a
// session with a strange timeout.
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

// A server that doesn't answer is named.
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
