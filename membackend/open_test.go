package membackend_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/membackend"
)

func mustOpen(t *testing.T, url string) locker.Locker {
	t.Helper()
	l, err := locker.Open(t.Context(), url)
	if err != nil {
		t.Fatalf("Open(%q) = %v", url, err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func mustAcquire(t *testing.T, l locker.Locker, name string, opts ...locker.Option) locker.Lease {
	t.Helper()
	lease, err := locker.TryAcquire(t.Context(), l, name, opts...)
	if err != nil {
		t.Fatalf("TryAcquire = %v", err)
	}
	return lease
}

func wantHeld(t *testing.T, l locker.Locker, name string) {
	t.Helper()
	if _, err := locker.TryAcquire(t.Context(), l, name); !errors.Is(err, locker.ErrHeld) {
		t.Errorf("TryAcquire = %v, want %v", err, locker.ErrHeld)
	}
}

func TestURLsNameServices(t *testing.T) {
	a, b := mustOpen(t, "mem://"+t.Name()), mustOpen(t, "mem://"+t.Name())
	other := mustOpen(t, "mem://"+t.Name()+"2")
	mustAcquire(t, a, "name")
	wantHeld(t, b, "name")
	mustAcquire(t, other, "name")
	// Two parts of a program that read one LOCKER_URL must not have two services: its scope is the
	// process.
	mustAcquire(t, mustOpen(t, "mem://"), "name")
	wantHeld(t, mustOpen(t, "mem://"), "name")
	wantHeld(t, mustOpen(t, "mem://?ttl=5s"), "name")
	private := membackend.New()
	t.Cleanup(func() { _ = private.Close() })
	mustAcquire(t, private, "name")
}

// TestNamedServiceLivesWhileItIsOpen: a lock that a closed Locker has not released stays as long as
// others use the service.
func TestNamedServiceLivesWhileItIsOpen(t *testing.T) {
	url := "mem://" + t.Name()
	a, b := mustOpen(t, url), mustOpen(t, url)
	if err := a.Close(); err != nil {
		t.Fatalf("Close = %v", err)
	}
	_ = a.Close() // a second one must not count twice
	mustAcquire(t, b, "name")
	c := mustOpen(t, url)
	wantHeld(t, c, "name")
	for _, l := range []locker.Locker{b, c} {
		if err := l.Close(); err != nil {
			t.Fatalf("Close = %v", err)
		}
	}
	if names := membackend.NamedServices(); len(names) > 0 {
		t.Errorf("services = %q after all are closed, want none", names)
	}
}

// TestTokensRiseOverTheEndOfAService: a fence doesn't know that a service has ended, and the clock of a
// bubble stands still.
func TestTokensRiseOverTheEndOfAService(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		last := locker.Token(0)
		for range 3 {
			l := mustOpen(t, "mem://"+t.Name())
			for range 3 {
				lease := mustAcquire(t, l, "name")
				if lease.Token() <= last {
					t.Errorf("token %d after %d", lease.Token(), last)
				}
				last = lease.Token()
				if err := lease.Release(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func TestURLParameterTTL(t *testing.T) {
	lease := mustAcquire(t, mustOpen(t, "mem://?ttl=5m"), "name")
	if left := time.Until(lease.Deadline()); left < 4*time.Minute || left > 5*time.Minute {
		t.Errorf("deadline in %v, want nearly 5m", left)
	}
}

func TestURLMistakes(t *testing.T) {
	for _, tt := range []struct{ url, names string }{
		{"mem://?tll=5s", `"tll"`},
		{"mem://name?ttl=5s&prefix=x", `"prefix"`},
		{"mem://?ttl=soon", `"ttl"`},
		{"mem://?ttl=0s", `"ttl"`},
		{"mem://?ttl=-5s", `"ttl"`},
		{"mem://?ttl=1ms", "1ms"},
		{"mem://?ttl=5s&ttl=6s", `"ttl"`},
		{"mem://user:secret@name", "mem://NAME"},
		{"mem://secret@", "mem://NAME"},
		{"mem://name/", "mem://NAME"},
		{"mem:///name", "mem://NAME"},
		{"mem://name:80", "mem://NAME"},
		{"mem://:80", "mem://NAME"},
		{"mem://name:", "mem://NAME"},
		{"mem://[::1]", "mem://NAME"},
		{"mem://name#part", "mem://NAME"},
		{"mem:name", "mem://NAME"},
	} {
		l, err := locker.Open(t.Context(), tt.url)
		if l != nil || !errors.Is(err, locker.ErrOption) || !strings.Contains(err.Error(), tt.names) {
			t.Errorf("Open(%q) = %v, %v, want %v that says %s", tt.url, l, err, locker.ErrOption, tt.names)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("Open(%q) = %v, which tells a secret", tt.url, err)
		}
	}
	if names := membackend.NamedServices(); len(names) > 0 {
		t.Errorf("services = %q after mistakes, want none", names)
	}
}

func TestRequirements(t *testing.T) {
	l, err := locker.Open(t.Context(), "mem://",
		locker.Efficiency, locker.OrderFIFO, locker.WaitingHandOff, locker.RequireTTL)
	if err != nil {
		t.Fatalf("Open for efficiency = %v", err)
	}
	if err := l.Close(); err != nil {
		t.Errorf("Close = %v", err)
	}
	if _, err := locker.Open(t.Context(), "mem://"+t.Name(), locker.Correctness); !errors.Is(err, locker.ErrGuarantee) {
		t.Errorf("Open for correctness = %v, want %v", err, locker.ErrGuarantee)
	}
	if names := membackend.NamedServices(); len(names) > 0 {
		t.Errorf("services = %q after a refusal, want none", names)
	}
}

func TestNewOptions(t *testing.T) {
	s := membackend.NewServer()
	a := membackend.New(membackend.WithServer(s), membackend.WithDefaultTTL(time.Minute))
	b := membackend.New(membackend.WithServer(s))
	defer a.Close()
	defer b.Close()
	lease := mustAcquire(t, a, "name")
	if left := time.Until(lease.Deadline()); left < 50*time.Second || left > time.Minute {
		t.Errorf("deadline in %v, want nearly 1m", left)
	}
	wantHeld(t, b, "name")
	if got, want := a.Guarantees(), membackend.Guarantees(); got != want {
		t.Errorf("Guarantees = %v, want %v", got, want)
	}
	silly := membackend.New(membackend.WithServer(s), membackend.WithDefaultTTL(0))
	defer silly.Close()
	if _, err := silly.Acquire(t.Context(), "other"); !errors.Is(err, locker.ErrOption) {
		t.Errorf("Acquire with a TTL of 0 = %v, want %v", err, locker.ErrOption)
	}
	if _, err := a.Acquire(t.Context(), "other", locker.WithTTL(time.Millisecond)); !errors.Is(err, locker.ErrOption) {
		t.Errorf("Acquire with a TTL of 1ms = %v, want %v", err, locker.ErrOption)
	}
}
