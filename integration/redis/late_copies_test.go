//go:build unix

package redis

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance/step"
	"github.com/fencedlock/locker/integration/internal/itest"
)

// A server that is started with older data, or a replica that takes over, has an earlier state of a
// lock. On this server a lock that was granted since is free, and may be granted again.

// dump is what the server has about a lock.
type dump struct {
	values map[string]string
	left   map[string]time.Duration
}

func (b *Bench) all() []string {
	b.t.Helper()
	keys, err := b.Admin.Keys(b.t.Context(), key(b.Name)+"*").Result()
	if err != nil {
		b.t.Fatal(err)
	}
	return keys
}

func (b *Bench) dump() dump {
	b.t.Helper()
	d := dump{make(map[string]string), make(map[string]time.Duration)}
	for _, k := range b.all() {
		value, err := b.Admin.Dump(b.t.Context(), k).Result()
		if err != nil {
			b.t.Fatal(err)
		}
		d.values[k], d.left[k] = value, b.Admin.PTTL(b.t.Context(), k).Val()
	}
	return d
}

// load has the server go back to what it had.
func (b *Bench) load(d dump) {
	b.t.Helper()
	pipe := b.Admin.TxPipeline()
	for _, k := range b.all() {
		pipe.Del(b.t.Context(), k)
	}
	for k, value := range d.values {
		pipe.Restore(b.t.Context(), k, d.left[k], value)
	}
	if _, err := pipe.Exec(b.t.Context()); err != nil {
		b.t.Fatal(err)
	}
}

// waitingBehind makes a lease, and another owner that waits for the lock.
func (b *Bench) waitingBehind(holder, waiter locker.Locker) (locker.Lease, *step.Attempt) {
	b.t.Helper()
	lease := step.Acquire(b.t, holder, b.Name, locker.WithTTL(itest.LongTTL))
	next := step.StartAcquire(b.t, waiter, b.Name, locker.WithTTL(itest.LongTTL))
	step.Eventually(b.t, itest.ShortWait, func() error { return b.Service.queued(b.t, b.Name, 1) })
	return lease, next
}

// If the server knows a holder as a waiter, the holder must not treat the renewal of its place as a
// renewal of its lease.
func TestRedisHolderBecomesWaiter(t *testing.T) {
	b := NewBench(t)
	l, other := step.CloseAtEnd(t, b.Service.Open(t)), step.CloseAtEnd(t, b.Service.Open(t))
	former, next := b.waitingBehind(l, other)
	older := b.dump()
	step.Release(t, former)
	lease := next.Granted(t, itest.ShortWait)
	if err := lease.Renew(t.Context()); err != nil {
		t.Fatalf("Renew = %v, want nil", err)
	}
	b.load(older)
	if err := lease.Renew(t.Context()); !errors.Is(err, locker.ErrLost) {
		t.Errorf("Renew of a lease of which the server knows nothing = %v, want ErrLost", err)
	}
	step.LostWithin(t, itest.ShortWait, lease)
	step.Eventually(t, itest.ShortWait, func() error { return b.Service.queued(t, b.Name, 0) })
	b.Admin.Del(t.Context(), key(b.Name)) // the former holder's
	step.FreeWithin(t, itest.ShortWait, l, b.Name)
	b.empty()
}

// A holder that is granted the lock again doesn't know whether another owner had it in between.
func TestRedisGrantedTwice(t *testing.T) {
	b := NewBench(t)
	l, other := step.CloseAtEnd(t, b.Service.Open(t)), step.CloseAtEnd(t, b.Service.Open(t))
	former, next := b.waitingBehind(l, other)
	older := b.dump()
	step.Release(t, former)
	lease := next.Granted(t, itest.ShortWait)
	b.load(older)
	b.Admin.Del(t.Context(), key(b.Name))
	if _, err := locker.TryAcquire(t.Context(), l, b.Name); !errors.Is(err, locker.ErrHeld) { // it goes to the first that waits
		t.Fatalf("TryAcquire = %v, want ErrHeld", err)
	}
	step.LostWithin(t, itest.ShortWait, lease) // long before its renewal
	if token := step.FreeWithin(t, itest.ShortWait, l, b.Name); token <= lease.Token() {
		t.Errorf("token %d after %d", token, lease.Token())
	}
	b.empty()
}

func (b *Bench) empty() {
	b.t.Helper()
	if left := slices.DeleteFunc(b.all(), Harmless.MatchString); len(left) > 0 {
		b.t.Errorf("nobody has the lock, and there are %q", left)
	}
}
