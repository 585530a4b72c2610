package redlockbackend_test

import (
	"crypto/tls"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencedlock/locker/internal/redisconn/redistest"
	"github.com/fencedlock/locker/redlockbackend"
)

// The error of servers that can't be reached speaks of TLS only where that may be the reason.
func TestHintAtTLS(t *testing.T) {
	const (
		with    = "; a server that speaks TLS needs redlocks:// or rediss://"
		without = "; a server that doesn't speak TLS needs redlock:// or redis://"
	)
	hangs := func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) } // also what Redis does with the first message of TLS
	ends := func(net.Conn) {}                                         // also what TLS does with a command
	closed := func() string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		return l.Addr().String()
	}
	for _, c := range []struct {
		what  string
		addrs func(t *testing.T) []string
		tls   bool
		want  string
	}{
		{"closed ports", func(*testing.T) []string { return []string{closed(), closed(), closed()} }, false, ""},
		{"closed ports, TLS", func(*testing.T) []string { return []string{closed(), closed(), closed()} }, true, ""},
		{"servers that hang", func(t *testing.T) []string {
			return []string{redistest.Listen(t, hangs), redistest.Listen(t, hangs), redistest.Listen(t, hangs)}
		}, false, ""},
		{"servers that hang, TLS", func(t *testing.T) []string {
			return []string{redistest.Listen(t, hangs), redistest.Listen(t, hangs), redistest.Listen(t, hangs)}
		}, true, without},
		{"servers that end connections", func(t *testing.T) []string {
			return []string{redistest.Listen(t, ends), redistest.Listen(t, ends), redistest.Listen(t, ends)}
		}, false, with},
		{"one that ends connections, two closed ports", func(t *testing.T) []string {
			return []string{closed(), closed(), redistest.Listen(t, ends)}
		}, false, with},
		{"two that end connections, and one that answers", func(t *testing.T) []string {
			answers := func(conn net.Conn) {
				request := make([]byte, 1024)
				for {
					n, err := conn.Read(request)
					if err != nil {
						return
					}
					commands := strings.Count(string(request[:n]), "*")
					_, _ = io.WriteString(conn, strings.Repeat("-LOADING Redis is loading the dataset in memory\r\n", commands))
				}
			}
			return []string{redistest.Listen(t, ends), redistest.Listen(t, answers), redistest.Listen(t, ends)}
		}, false, ""},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			var clients []*redis.Client
			for _, addr := range c.addrs(t) {
				o := &redis.Options{Addr: addr, MaxRetries: -1, DialerRetries: 1, ContextTimeoutEnabled: true, DialTimeout: time.Second}
				if c.tls {
					o.TLSConfig = &tls.Config{ServerName: "localhost"}
				}
				client := redis.NewClient(o)
				t.Cleanup(func() { _ = client.Close() })
				clients = append(clients, client)
			}
			limit := 10 * time.Second
			if strings.Contains(c.what, "hang") {
				limit = 20 * time.Millisecond
			}
			l, err := redlockbackend.New(t.Context(), clients, redlockbackend.WithServerTimeout(limit))
			if err == nil {
				_ = l.Close()
				t.Fatal("New = a Locker, want an error")
			}
			for _, hint := range []string{with, without} {
				if got, want := strings.HasSuffix(err.Error(), hint), hint == c.want; got != want {
					t.Errorf("New = %v, want %q at its end: %v", err, hint, want)
				}
			}
		})
	}
}
