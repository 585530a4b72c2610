//go:build unix

package itest

import (
	"context"
	"errors"
	"io"
	"net/url"
	"strings"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance"
)

// OpenURL opens a Locker as users do.
func OpenURL(t conformance.T, rawURL string) locker.Locker {
	t.Helper()
	l, err := locker.Open(t.Context(), rawURL)
	if err != nil {
		t.Fatalf("Open = %v", err)
	}
	return l
}

// Changed returns a URL with a change.
func Changed(rawURL string, change func(*url.URL)) string {
	u, err := url.Parse(rawURL)
	if err != nil {
		panic(err) // it was made here
	}
	change(u)
	return u.String()
}

// RefusedAtOpen opens a Locker. That must fail soon, with an error that contains all of words.
func RefusedAtOpen(t conformance.T, rawURL string, words ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), ShortWait)
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

// WithClient returns a Locker that closes its client when it is closed.
type WithClient struct {
	locker.Locker
	Client io.Closer
}

// Unwrap is for functions such as Inspect.
func (l WithClient) Unwrap() locker.Locker { return l.Locker }

func (l WithClient) Close() error { return errors.Join(l.Locker.Close(), l.Client.Close()) }
