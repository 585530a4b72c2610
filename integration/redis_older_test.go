//go:build unix

package integration

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/fencedlock/locker"
)

// A server that is started on older data, or a replica that takes over, knows of a lock what was so a moment ago. What has been
// granted since is nobody's then, and may be granted again.

// dump is what the server has about a lock.
type dump struct {
	values map[string]string
	left   map[string]time.Duration
}

func (b *bench) all() []string {
	b.t.Helper()
	keys, err := b.admin.Keys(b.t.Context(), key(b.name)+"*").Result()
	if err != nil {
		b.t.Fatal(err)
	}
	return keys
}

func (b *bench) dump() dump {
	b.t.Helper()
	d := dump{make(map[string]string), make(map[string]time.Duration)}
	for _, k := range b.all() {
		value, err := b.admin.Dump(b.t.Context(), k).Result()
		if err != nil {
			b.t.Fatal(err)
		}
		d.values[k], d.left[k] = value, b.admin.PTTL(b.t.Context(), k).Val()
	}
	return d
}

// load has the server go back to what it had.
func (b *bench) load(d dump) {
	b.t.Helper()
	pipe := b.admin.TxPipeline()
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

// waitingBehind makes a lease, and somebody who waits for it.
func (b *bench) waitingBehind(holder, waiter locker.Locker) (locker.Lease, *waiting) {
	b.t.Helper()
	lease := acquire(b.t, holder, b.name, locker.WithTTL(far))
	next := wait(b.t, waiter, b.name, locker.WithTTL(far))
	eventually(b.t, soon, func() error { return b.service.queued(b.t, b.name, 1) })
	return lease, next
}

// A holder whom the server knows as one that waits must not take the renewal of that place for one of its lease.
func TestRedisHolderBecomesWaiter(t *testing.T) {
	b := newBench(t)
	l, other := keep(t, b.service.open(t)), keep(t, b.service.open(t))
	former, next := b.waitingBehind(l, other)
	older := b.dump()
	release(t, former)
	lease := next.granted(t, soon)
	if err := lease.Renew(t.Context()); err != nil {
		t.Fatalf("Renew = %v, want nil", err)
	}
	b.load(older)
	if err := lease.Renew(t.Context()); !errors.Is(err, locker.ErrLost) {
		t.Errorf("Renew of a lease of which the server knows nothing = %v, want ErrLost", err)
	}
	lost(t, soon, lease)
	eventually(t, soon, func() error { return b.service.queued(t, b.name, 0) })
	b.admin.Del(t.Context(), key(b.name)) // that of the former holder
	free(t, soon, l, b.name)
	b.empty()
}

// A holder to whom the lock is granted again doesn't know who had it in between.
func TestRedisGrantedTwice(t *testing.T) {
	b := newBench(t)
	l, other := keep(t, b.service.open(t)), keep(t, b.service.open(t))
	former, next := b.waitingBehind(l, other)
	older := b.dump()
	release(t, former)
	lease := next.granted(t, soon)
	b.load(older)
	b.admin.Del(t.Context(), key(b.name))
	if _, err := locker.TryAcquire(t.Context(), l, b.name); !errors.Is(err, locker.ErrHeld) { // it goes to the first that waits
		t.Fatalf("TryAcquire = %v, want ErrHeld", err)
	}
	lost(t, soon, lease) // long before its renewal
	if token := free(t, soon, l, b.name); token <= lease.Token() {
		t.Errorf("token %d after %d", token, lease.Token())
	}
	b.empty()
}

func (b *bench) empty() {
	b.t.Helper()
	if left := slices.DeleteFunc(b.all(), harmless.MatchString); len(left) > 0 {
		b.t.Errorf("nobody has the lock, and there are %q", left)
	}
}
