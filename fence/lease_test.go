package fence_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/fence"
	"github.com/fencedlock/locker/membackend"
	"github.com/fencedlock/locker/middleware"
)

// withLease acquires a lease and returns ctx with it.
func withLease(t *testing.T, ctx context.Context, l locker.Locker, name string) (context.Context, locker.Lease) {
	t.Helper()
	lease, err := l.Acquire(ctx, name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = lease.Release(context.Background()) })
	inner, cancel := locker.WithLease(ctx, lease)
	t.Cleanup(cancel)
	return inner, lease
}

func newLocker(t *testing.T) locker.Locker {
	l := membackend.New()
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func wantToken(t *testing.T, ctx context.Context, resource string, want locker.Token) {
	t.Helper()
	if got, err := fence.TokenFrom(ctx, resource); got != want || err != nil {
		t.Errorf("TokenFrom(%q) = %v, %v, want %v", resource, got, err, want)
	}
}

func wantNoToken(t *testing.T, ctx context.Context, resource string, want error, says ...string) {
	t.Helper()
	got, err := fence.TokenFrom(ctx, resource)
	if got != 0 || !errors.Is(err, want) {
		t.Errorf("TokenFrom(%q) = %v, %v, want %v", resource, got, err, want)
		return
	}
	for _, part := range says {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("TokenFrom(%q) = %q, want it to say %s", resource, err, part)
		}
	}
}

func TestTokenFromTheOnlyLease(t *testing.T) {
	ctx, lease := withLease(t, t.Context(), newLocker(t), "invoices/42")
	wantToken(t, ctx, "invoices/42", lease.Token())
	wantToken(t, ctx, "{invoice:42}:fence", lease.Token()) // the key of a mark in Redis, say
	again, cancel := locker.WithLease(ctx, lease)
	defer cancel()
	wantToken(t, again, "{invoice:42}:fence", lease.Token()) // the same lease twice is one
}

// The token of another lock could be so high that the mark shuts out the right holders for good.
func TestTokenFromNestedLeases(t *testing.T) {
	l := newLocker(t)
	ctx, outer := withLease(t, t.Context(), l, "customers/7")
	ctx, inner := withLease(t, ctx, l, "invoices/42")
	wantToken(t, ctx, "invoices/42", inner.Token())
	wantToken(t, ctx, "customers/7", outer.Token())
	wantNoToken(t, ctx, "invoices/43", fence.ErrAmbiguousLease, `"invoices/43"`, `"invoices/42", "customers/7"`)
}

// Two lockers have locks with one name, whose tokens don't compare.
func TestTokenFromTwoLockers(t *testing.T) {
	ctx, _ := withLease(t, t.Context(), newLocker(t), "a")
	ctx, _ = withLease(t, ctx, newLocker(t), "a")
	wantNoToken(t, ctx, "a", fence.ErrAmbiguousLease, `called "a"`)
}

func TestTokenFromNoLease(t *testing.T) {
	wantNoToken(t, t.Context(), "a", fence.ErrNoLease, `"a"`)
	_, lease := withLease(t, t.Context(), newLocker(t), "a")
	ctx, cancel := locker.WithLease(context.Background(), lease)
	defer cancel()
	wantToken(t, ctx, "a", lease.Token())
	if err := lease.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantNoToken(t, ctx, "a", locker.ErrReleased)
}

// Decorators change what a lease is called and what its token is. The storage has seen the changed token.
func TestTokenFromDecoratedLeases(t *testing.T) {
	const base = 1 << 60
	based, err := locker.TokenBase(newLocker(t), base)
	if err != nil {
		t.Fatal(err)
	}
	l, err := middleware.Prefix(based, "billing/")
	if err != nil {
		t.Fatal(err)
	}
	ctx, lease := withLease(t, t.Context(), l, "invoices/42")
	if lease.Token() <= base {
		t.Fatalf("Token = %v, want one above the base", lease.Token())
	}
	ctx, _ = withLease(t, ctx, l, "customers/7")
	wantToken(t, ctx, "invoices/42", lease.Token())
	wantNoToken(t, ctx, "billing/invoices/42", fence.ErrAmbiguousLease)
}

func TestMemoryClaimFrom(t *testing.T) {
	var m fence.Memory
	if token, err := m.ClaimFrom(t.Context(), "a"); token != 0 || !errors.Is(err, fence.ErrNoLease) {
		t.Errorf("ClaimFrom without a lease = %v, %v, want 0, ErrNoLease", token, err)
	}
	ctx, lease := withLease(t, t.Context(), newLocker(t), "a")
	if token, err := m.ClaimFrom(ctx, "a"); token != lease.Token() || err != nil {
		t.Errorf("ClaimFrom = %v, %v, want %v", token, err, lease.Token())
	}
	if err := m.Claim(t.Context(), "a", lease.Token()-1); !errors.Is(err, fence.ErrStale) {
		t.Errorf("Claim with an older token = %v, want ErrStale", err)
	}
	if err := m.Claim(t.Context(), "a", lease.Token()+1); err != nil {
		t.Fatal(err)
	}
	if token, err := m.ClaimFrom(ctx, "a"); token != 0 || !errors.Is(err, fence.ErrStale) {
		t.Errorf("ClaimFrom of a stale lease = %v, %v, want 0, ErrStale", token, err)
	}
}

// Each slot has tokens of its own, and so has the lock of that name: none may be claimed with the token of another.
func TestTokenFromPermits(t *testing.T) {
	l := newLocker(t)
	outer, lock := withLease(t, t.Context(), l, "job")
	var leases []locker.Lease
	only, all := make([]context.Context, 3), outer
	for i := range 2 {
		lease, err := locker.TryAcquirePermit(t.Context(), l, "job", 2)
		if err != nil {
			t.Fatal(err)
		}
		leases = append(leases, lease)
		alone, cancel := locker.WithLease(t.Context(), lease)
		t.Cleanup(cancel)
		only[locker.Slot(lease)] = alone
		all, cancel = locker.WithLease(all, leases[i])
		t.Cleanup(cancel)
	}
	for _, lease := range leases {
		slot := locker.Slot(lease)
		own, others := fmt.Sprintf("job/%d", slot), fmt.Sprintf("job/%d", 3-slot)
		wantToken(t, only[slot], own, lease.Token())
		wantToken(t, only[slot], "tape", lease.Token())
		wantToken(t, only[slot], "job/tape", lease.Token())
		wantToken(t, only[slot], own+"/tape", lease.Token())
		wantNoToken(t, only[slot], "job", fence.ErrNoLease, own)
		wantNoToken(t, only[slot], others, fence.ErrNoLease, own)
		wantNoToken(t, only[slot], others+"/tape", fence.ErrNoLease, own)
		wantNoToken(t, only[slot], "job/17/tape", fence.ErrNoLease, own)
		wantNoToken(t, only[slot], fmt.Sprintf("job/0%d", slot), fence.ErrNoLease, own) // others may read it as a slot
		wantToken(t, all, own, lease.Token())
	}
	wantToken(t, all, "job", lock.Token())
	wantNoToken(t, all, "tape", fence.ErrAmbiguousLease, `"job/1"`, `"job/2"`)
	for _, lease := range leases {
		_ = lease.Release(t.Context())
	}
}

// decorated is a lease that a program has put something around.
type decorated struct{ locker.Lease }

func (d decorated) Unwrap() locker.Lease { return d.Lease }

// What is around a permit doesn't hide its slot. The tokens of two slots don't compare.
func TestTokenFromADecoratedPermit(t *testing.T) {
	l := newLocker(t)
	permit, err := locker.TryAcquirePermit(t.Context(), l, "job", 2)
	if err != nil {
		t.Fatal(err)
	}
	defer permit.Release(t.Context())
	slot := locker.Slot(permit)
	lease := decorated{decorated{permit}}
	if got := locker.Slot(lease); got != slot || slot == 0 {
		t.Errorf("Slot = %d, want %d", got, slot)
	}
	if got := locker.Slot(decorated{}); got != 0 {
		t.Errorf("Slot without a lease = %d", got)
	}
	ctx, cancel := locker.WithLease(t.Context(), lease)
	defer cancel()
	own := fmt.Sprintf("job/%d", slot)
	wantToken(t, ctx, own, permit.Token())
	wantNoToken(t, ctx, "job", fence.ErrNoLease, own)
	wantNoToken(t, ctx, fmt.Sprintf("job/%d", 3-slot), fence.ErrNoLease, own)
}
