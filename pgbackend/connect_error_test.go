package pgbackend_test

import (
	"errors"
	"net"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/fencedlock/locker"
)

// What is wrong is said in one line, and once.
func TestRefusalIsOneLine(t *testing.T) {
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := closed.Addr().String()
	_ = closed.Close()
	full := newFake(t)
	full.change(func(f *fake) {
		f.greeting = &pgproto3.ErrorResponse{Severity: "FATAL", SeverityUnlocalized: "FATAL", Code: "53300", Message: "sorry, too many clients already"}
	})
	for name, c := range map[string]struct {
		url, want string
		is        func(error) bool
	}{
		"nobody is there": {"postgres://joe:sesame@" + addr + "/d", addr + ": connect: connection refused",
			func(err error) bool { return errors.Is(err, syscall.ECONNREFUSED) }},
		"nobody at two addresses": {"postgres://joe:sesame@" + addr + "," + addr + "/d?sslmode=disable", addr + ": connect: connection refused", nil},
		"a server without TLS that refuses": {"postgres://joe:sesame@" + full.addr + "/d",
			full.addr + ": server error: FATAL: sorry, too many clients already (SQLSTATE 53300)",
			func(err error) bool { return errors.As(err, new(*pgconn.PgError)) }},
		"a server without TLS, which is demanded": {"postgres://joe:sesame@" + full.addr + "/d?sslmode=require",
			full.addr + ": tls error: server refused TLS connection", nil},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := locker.Open(t.Context(), c.url)
			if err == nil {
				t.Fatal("Open = nil")
			}
			if text := err.Error(); !strings.HasSuffix(text, "no connection for user joe to database d: "+c.want) ||
				strings.ContainsAny(text, "\n\t") || strings.Contains(text, "sesame") {
				t.Errorf("Open = %q, want one line that ends with %q", text, c.want)
			}
			if c.is != nil && !c.is(err) {
				t.Errorf("Open = %v, which has lost its cause", err)
			}
		})
	}
}

// Several mistakes in options are one line, too.
func TestWrongOptionsAreOneLine(t *testing.T) {
	_, err := locker.Open(t.Context(), "postgres://h/d?ttl=1ns&waiter_connections=-1")
	if !errors.Is(err, locker.ErrOption) || strings.Contains(err.Error(), "\n") {
		t.Errorf("Open = %q, want ErrOption in one line", err)
	}
}
