package locker_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/fencedlock/locker"
)

var opened = &fakeLocker{guarantees: locker.Guarantees{Backend: "fake", Order: locker.OrderFIFO}}

var errRefused = errors.New("connection refused")

func init() {
	locker.Register("fake", func(_ context.Context, u *url.URL) (locker.Locker, error) {
		if u.Host == "down" {
			return nil, errRefused
		}
		if u.Query().Has("token_base") {
			return nil, errors.New("token_base is not for backends")
		}
		return opened, nil
	})
}

func TestOpen(t *testing.T) {
	l, err := locker.Open(t.Context(), "fake://host", locker.OrderFIFO)
	if err != nil || l != locker.Locker(opened) {
		t.Fatalf("Open = %v, %v", l, err)
	}
	if l, err = locker.Open(t.Context(), "FAKE://host"); err != nil || l == nil {
		t.Errorf("Open of a scheme in capitals = %v; schemes have no case", err)
	}
	// A secret that was written with echo ends in a line break.
	for _, u := range []string{"fake://host\n", " \tfake://host?x=1\r\n"} {
		if l, err = locker.Open(t.Context(), u); err != nil || l == nil {
			t.Errorf("Open(%q) = %v", u, err)
		}
	}
}

func TestOpenHoldsTheLockerToTheRequirements(t *testing.T) {
	before := opened.closed
	_, err := locker.Open(t.Context(), "fake://host", locker.FencingDurable)
	var e *locker.Error
	if !errors.Is(err, locker.ErrGuarantee) || !strings.Contains(err.Error(), "fencing") || !errors.As(err, &e) || e.Backend != "fake" || e.Op != "open" {
		t.Errorf("Open = %v, want ErrGuarantee that names fencing and the backend", err)
	}
	if opened.closed != before+1 {
		t.Error("a locker that was refused was left open")
	}
}

func TestOpenErrors(t *testing.T) {
	for _, tc := range []struct {
		url  string
		is   error
		says string
	}{
		{"", locker.ErrOption, "it is empty"},
		{" \n", locker.ErrOption, "it is empty"},
		{"127.0.0.1:6379", locker.ErrOption, "without a scheme"},
		{"127.0.0.1:6379/0", locker.ErrOption, "without a scheme"},
		{"fake://user:hunter2@host\n/0", locker.ErrOption, "line break"},
		{"fake://user:hunter2@host:port", locker.ErrOption, "a port is not a number"},
		{"fake://user:hunter2@host:99999", locker.ErrOption, "a port is at most 65535"},
		{"fake://user:hunter2@a:99999,b:1", locker.ErrOption, "a port is at most 65535"},
		{"fake://user:hunter2@a:1,b/x", locker.ErrOption, "the last one needs a port"},
		{"fake://user:hunter2@a:1,[::1]/x", locker.ErrOption, "can't be parsed"},
		{"fake://user:hunter2@ho st", locker.ErrOption, "a character that no host can have"},
		{"localhost:6379", locker.ErrOption, "without a scheme"},
		{"hunter2:hunter2", locker.ErrOption, "without a scheme"},
		{"nosuch://host", locker.ErrOption, `no backend for scheme "nosuch" (known here: fake`},
		{"redis://hunter2:hunter2@host", locker.ErrOption, `(known here: fake`},
		{"redis://hunter2:hunter2@host", locker.ErrOption, `): import _ "github.com/fencedlock/locker/redisbackend"`},
		{"fake://down", errRefused, "connection refused"},
		{"fake://user:hunter2@down", errRefused, "connection refused"},
		{"fake://user:hunter2%zz@host", locker.ErrOption, "two hexadecimal digits"},
		{"fake://user:hunter2/x@host", locker.ErrOption, "isn't escaped"},
		{"fake://user:hunter2#x@host", locker.ErrOption, "isn't escaped"},
		{"fake://[hunter2", locker.ErrOption, "URL"},
		{"fake://user:hunter2 @host", locker.ErrOption, "URL"},
		{":hunter2", locker.ErrOption, "URL"},
		{"fake://ho\x7fst", locker.ErrOption, "URL"},
		{"fake://host/?token_base=1;ttl=5s", locker.ErrOption, "are their special characters escaped"},
		{"fake://host/?hunter2=%zz", locker.ErrOption, "are their special characters escaped"},
	} {
		_, err := locker.Open(t.Context(), tc.url)
		if !errors.Is(err, tc.is) || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("Open(%q) = %v, want %v that says %q", tc.url, err, tc.is, tc.says)
		}
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("Open(%q) = %v: the password is in it", tc.url, err)
		}
	}
}

func TestOpenWithoutARequirement(t *testing.T) {
	before := opened.closed
	l, err := locker.Open(t.Context(), "fake://host", locker.OrderFIFO, nil)
	if l != nil || !errors.Is(err, locker.ErrOption) || !strings.Contains(err.Error(), "a requirement is nil") || opened.closed != before {
		t.Errorf("Open = %v, %v, want ErrOption before anything is opened", l, err)
	}
}

// An error with several causes is one line, and matches every cause.
func TestErrorsAreOneLine(t *testing.T) {
	first, second := errors.New("first"), errors.New("second")
	failing := &locker.Error{Op: "close", Backend: "fake", Err: errors.Join(first, fmt.Errorf("both: %w", errors.Join(second, first)))}
	if got, want := failing.Error(), "locker: close on fake: first; both: second; first"; got != want {
		t.Errorf("Error = %q, want %q", got, want)
	}
	_, opening := locker.Open(t.Context(), "fake://host", locker.FencingDurable, locker.ScopeNetwork)
	requiring := locker.Require(locker.Guarantees{Backend: "weak"}, locker.FencingDurable, locker.ScopeNetwork)
	lease := newFakeLease()
	lease.releaseErr = second
	doing := locker.Do(t.Context(), &fakeLocker{lease: lease}, "name", func(context.Context, locker.Lease) error { return first })
	for _, err := range []error{opening, requiring, doing, failing} {
		if text := err.Error(); strings.Contains(text, "\n") || !strings.Contains(text, "; ") {
			t.Errorf("%q is not one line of two errors", text)
		}
	}
	if !errors.Is(doing, first) || !errors.Is(doing, second) {
		t.Errorf("Do = %v, which doesn't match both causes", doing)
	}
}

// Where a locker promises less than its backend usually does, the refusal says why.
func TestRequireSaysWhyLessIsPromised(t *testing.T) {
	g := locker.Guarantees{Backend: "weak", Because: "its disk is a sieve"}
	if err := locker.Require(g, locker.FencingDurable); !errors.Is(err, locker.ErrGuarantee) || !strings.Contains(err.Error(), "(its disk is a sieve)") {
		t.Errorf("Require = %v, want the reason in it", err)
	}
	if !strings.HasSuffix(g.String(), " (its disk is a sieve)") {
		t.Errorf("String = %q, want the reason at its end", g)
	}
}

func FuzzOpen(f *testing.F) {
	for _, s := range []string{"fake://h", "fake://u:PASSWORD@h", "x:PASSWORD", "fake://u:PASSWORD%@h", "PASSWORD://", "://PASSWORD"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, rawURL string) {
		l, err := locker.Open(t.Context(), rawURL)
		if (l == nil) != (err != nil) {
			t.Fatalf("Open(%q) = %v, %v", rawURL, l, err)
		}
		// A value in the place of a password must not appear in the error.
		const secret = "s3cr3t0"
		if strings.Contains(rawURL, secret) {
			return
		}
		_, err = locker.Open(t.Context(), "fake://user:"+secret+rawURL+"@down")
		if err != nil && strings.Contains(err.Error(), secret) {
			t.Errorf("the password is in %q", err)
		}
	})
}

func TestRegisterRefusesMistakes(t *testing.T) {
	open := func(context.Context, *url.URL) (locker.Locker, error) { return opened, nil }
	for what, register := range map[string]func(){
		"twice":    func() { locker.Register("fake", open) },
		"empty":    func() { locker.Register("", open) },
		"capitals": func() { locker.Register("Upper", open) },
		"nil":      func() { locker.Register("nilopener", nil) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: Register didn't panic", what)
				}
			}()
			register()
		}()
	}
}
