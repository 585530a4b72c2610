package pgbackend_test

import (
	"context"
	"net"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/fencedlock/locker/pgbackend"
)

// This machine's kernel must not end a connection before the TTL is over either: that ends the
// session, and the rival may have the lock before this process has noticed.
func TestOwnKernelOutlastsTheTTL(t *testing.T) {
	f := newFake(t)
	config := f.config(t)
	dial := config.ConnConfig.DialFunc
	var mu sync.Mutex
	var sockets []*net.TCPConn
	config.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err == nil {
			mu.Lock()
			defer mu.Unlock()
			sockets = append(sockets, conn.(*net.TCPConn))
		}
		return conn, err
	}
	l, err := pgbackend.New(t.Context(), config, pgbackend.WithDefaultTTL(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	f.somebodyHas("a")
	if _, err := l.Acquire(t.Context(), "a"); err != nil { // on a waiter's connection
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(sockets) < 2 {
		t.Fatalf("there are %d connections, want that of leases and a waiter's", len(sockets))
	}
	for i, socket := range sockets {
		if got, want := userTimeout(t, socket), 65*time.Second; got != want {
			t.Errorf("TCP_USER_TIMEOUT of connection %d = %v, want %v: the TTL and 5 s", i, got, want)
		}
	}
}

func userTimeout(t *testing.T, socket *net.TCPConn) time.Duration {
	t.Helper()
	raw, err := socket.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var ms int
	if controlErr := raw.Control(func(fd uintptr) { ms, err = syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP, 18) }); controlErr != nil || err != nil {
		t.Fatal(controlErr, err)
	}
	return time.Duration(ms) * time.Millisecond
}
