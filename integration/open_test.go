//go:build unix

package integration

import (
	"context"
	"errors"
	"io"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance"
)

// openURL opens a Locker as users do.
func openURL(t conformance.T, rawURL string) locker.Locker {
	t.Helper()
	l, err := locker.Open(t.Context(), rawURL)
	if err != nil {
		t.Fatalf("Open = %v", err)
	}
	return l
}

// Whoever gives up an opening gets the error of the context, and the cause of that.
func TestOpeningIsGivenUp(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0") // which takes connections, and says nothing
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	addr := listener.Addr().String()
	for _, rawURL := range []string{
		"redis://" + addr,
		"redlock://" + addr + ",127.0.0.1:1,127.0.0.1:2",
		"etcd://" + addr,
		"zk://" + addr,
		"postgres://joe@" + addr + "/d",
	} {
		because := errors.New("because")
		ctx, cancel := context.WithTimeoutCause(t.Context(), 100*time.Millisecond, because)
		_, err := locker.Open(ctx, rawURL)
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, because) {
			t.Errorf("Open(%q) = %v, want DeadlineExceeded and the cause", rawURL, err)
		}
		cancel()
	}
}

// changed is a URL with a change.
func changed(rawURL string, change func(*url.URL)) string {
	u, err := url.Parse(rawURL)
	if err != nil {
		panic(err) // it was made here
	}
	change(u)
	return u.String()
}

// refusedAtOpen opens a Locker, which must fail soon with an error that has all of words in it.
func refusedAtOpen(t conformance.T, rawURL string, words ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	l, err := locker.Open(ctx, rawURL)
	if err == nil {
		_ = l.Close()
		t.Fatalf("Open = a Locker, want an error")
	}
	t.Logf("Open = %v", err)
	var e *locker.Error
	if !errors.As(err, &e) {
		t.Errorf("Open = %#v, want a *locker.Error", err)
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("Open = %v, want %q in it", err, word)
		}
	}
	if u, parseErr := url.Parse(rawURL); parseErr == nil {
		if password, ok := u.User.Password(); ok && strings.Contains(err.Error(), password) {
			t.Errorf("the error shows the password: %v", err)
		}
	}
}

// withClient is a Locker that closes its client when it is closed.
type withClient struct {
	locker.Locker
	client io.Closer
}

func (l withClient) Close() error { return errors.Join(l.Locker.Close(), l.client.Close()) }
