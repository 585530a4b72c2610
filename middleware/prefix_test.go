package middleware_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/membackend"
	"github.com/fencedlock/locker/middleware"
)

func prefixed(t *testing.T, s *membackend.Server, prefix string) locker.Locker {
	t.Helper()
	l, err := middleware.Prefix(membackend.New(membackend.WithServer(s)), prefix)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Errorf("Close = %v", err)
		}
	})
	return l
}

func TestPrefixesKeepProgramsApart(t *testing.T) {
	s := membackend.NewServer()
	billing, mail := prefixed(t, s, "billing/"), prefixed(t, s, "mail/")
	lease, err := billing.Acquire(t.Context(), "job")
	if err != nil {
		t.Fatal(err)
	}
	if lease.Name() != "job" {
		t.Errorf("Name = %q, want the one that was asked for", lease.Name())
	}
	if _, err := locker.TryAcquire(t.Context(), mail, "job"); err != nil {
		t.Errorf("the same name under another prefix: %v", err)
	}
	if _, err := locker.TryAcquire(t.Context(), billing, "job"); !errors.Is(err, locker.ErrHeld) || !strings.Contains(err.Error(), `"billing/job"`) {
		t.Errorf("the same name under the same prefix: %v, want ErrHeld and the whole name", err)
	}
	if got, err := locker.CurrentToken(t.Context(), billing, "job", 0); got != lease.Token() || err != nil {
		t.Errorf("CurrentToken = %v, %v, want %v", got, err, lease.Token())
	}
	permit, err := locker.AcquirePermit(t.Context(), billing, "job", 1)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := locker.CurrentToken(t.Context(), billing, "job", 1); got != permit.Token() || err != nil {
		t.Errorf("CurrentToken of slot 1 = %v, %v, want %v", got, err, permit.Token())
	}
	if got, err := locker.CurrentToken(t.Context(), mail, "free", 0); got != 0 || err != nil {
		t.Errorf("CurrentToken under another prefix = %v, %v, want 0", got, err)
	}
	bare := membackend.New(membackend.WithServer(s))
	defer bare.Close()
	if _, err := locker.TryAcquire(t.Context(), bare, "billing/job"); !errors.Is(err, locker.ErrHeld) {
		t.Errorf("the whole name without a prefix: %v, want ErrHeld", err)
	}
}

// A prefix doesn't hide from a caller that it would wait for itself.
func TestOwnLockIsKnownThroughPrefixes(t *testing.T) {
	l := membackend.New()
	t.Cleanup(func() { _ = l.Close() })
	with := func(prefix string, l locker.Locker) locker.Locker {
		p, err := middleware.Prefix(l, prefix)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	err := locker.Do(t.Context(), with("billing/", l), "job", func(ctx context.Context, _ locker.Lease) error {
		for what, acquire := range map[string]func() (locker.Lease, error){
			"the same prefix": func() (locker.Lease, error) { return with("billing/", l).Acquire(ctx, "job") },
			"no prefix":       func() (locker.Lease, error) { return l.Acquire(ctx, "billing/job") },
			"two prefixes":    func() (locker.Lease, error) { return with("ing/", with("bill", l)).Acquire(ctx, "job") },
		} {
			if _, err := acquire(); !errors.Is(err, locker.ErrHeldByCaller) {
				t.Errorf("%s: %v, want ErrHeldByCaller", what, err)
			}
		}
		return locker.Do(ctx, with("mail/", l), "job", func(context.Context, locker.Lease) error { return nil })
	})
	if err != nil {
		t.Errorf("another prefix: %v", err)
	}
}

func TestPrefixRefusesBadNames(t *testing.T) {
	s := membackend.NewServer()
	for _, prefix := range []string{"", "a\n", strings.Repeat("p", 201)} {
		if _, err := middleware.Prefix(membackend.New(membackend.WithServer(s)), prefix); !errors.Is(err, locker.ErrName) {
			t.Errorf("Prefix(%q) = %v, want ErrName", prefix, err)
		}
	}
	l := prefixed(t, s, "p/")
	for _, name := range []string{"", "a\n", strings.Repeat("n", 199)} {
		if _, err := l.Acquire(t.Context(), name); !errors.Is(err, locker.ErrName) {
			t.Errorf("Acquire(%q) = %v, want ErrName", name, err)
		}
		_, err := locker.CurrentToken(t.Context(), l, name, 0)
		if e := new(locker.Error); !errors.Is(err, locker.ErrName) || !errors.As(err, &e) || e.Op != "read token" {
			t.Errorf("CurrentToken(%q) = %v, want ErrName of the operation read token", name, err)
		}
	}
	if n := s.Requests(); n != 0 {
		t.Errorf("%d requests were sent for bad names", n)
	}
}

// As finds what is underneath, through the decorator.
func TestPrefixUnwraps(t *testing.T) {
	l := prefixed(t, membackend.NewServer(), "p/")
	lease, err := l.Acquire(t.Context(), "job")
	if err != nil {
		t.Fatal(err)
	}
	inner, ok := locker.As[interface{ Unwrap() any }](lease)
	if !ok || inner.Unwrap().(locker.Lease).Name() != "p/job" {
		t.Errorf("As = %v, %v; want the decorator, around the lease by its whole name", inner, ok)
	}
}

// A faulty Locker may return neither a lease nor an error. What calls it through a prefix sees that.
func TestPrefixOfAFaultyLocker(t *testing.T) {
	l, err := middleware.Prefix(faulty{membackend.New()}, "billing/")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if lease, err := l.Acquire(t.Context(), "job"); lease != nil || err != nil {
		t.Errorf("Acquire = %v, %v, want nothing", lease, err)
	}
	if _, err := locker.AcquireAll(t.Context(), l, locker.Wants("a", "b")); err == nil {
		t.Error("AcquireAll = nil, want an error")
	}
}

type faulty struct{ locker.Locker }

func (faulty) Acquire(context.Context, string, ...locker.Option) (locker.Lease, error) {
	return nil, nil
}
