//go:build unix

package redis

import (
	"strings"
	"testing"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance/step"
	"github.com/fencedlock/locker/integration/internal/itest"
)

// What somebody else has written in the place of a lock holds it, and tells nothing. It may be very
// long, and is cut on the server.
func TestInspectOfForeignValues(t *testing.T) {
	s := Standalone(t)
	admin := s.Nodes[0].Admin
	l := step.CloseAtEnd(t, s.Open(t))
	long := strings.Repeat("x", 1<<20)
	for _, value := range []string{"x -9000000000000000000", "x 0", "", long} {
		name := step.LockName(t)
		if err := admin.Set(t.Context(), key(name), value, itest.LongTTL).Err(); err != nil {
			t.Fatal(err)
		}
		status, err := locker.Inspect(t.Context(), l, name, locker.Look{Waiters: 1})
		if err != nil || status.Holder == nil {
			t.Fatalf("Inspect of %.30q = %+v, %v, want a holder", value, status, err)
		}
		p := *status.Holder
		if p.ExpiresIn <= 0 || p.ExpiresIn > itest.LongTTL || p != (locker.Party{ExpiresIn: p.ExpiresIn}) {
			t.Errorf("Inspect of %.30q shows %+v, want its expiry alone", value, p)
		}
		if err := admin.Del(t.Context(), key(name)).Err(); err != nil {
			t.Fatal(err)
		}
	}

	name := step.LockName(t)
	lease := step.Acquire(t, l, name)
	if err := admin.Do(t.Context(), "zadd", key(name)+":queue", "1", long).Err(); err != nil {
		t.Fatal(err)
	}
	status, err := locker.Inspect(t.Context(), l, name, locker.Look{Waiters: 1})
	if err != nil || len(status.Waiters) != 1 || len(status.Waiters[0].Owner) > 300 {
		t.Errorf("Inspect of a queue with a long entry = %d waiters, %v, want it cut", len(status.Waiters), err)
	}
	if err := admin.Del(t.Context(), key(name)+":queue").Err(); err != nil {
		t.Fatal(err)
	}
	step.Release(t, lease)
}

// What follows the first line of a lease is shown if it is a label, and the lock is the holder's
// whatever it is: its holder renews and releases it.
func TestLabelsOfSomebodyElse(t *testing.T) {
	s := Standalone(t)
	admin := s.Nodes[0].Admin
	l := step.CloseAtEnd(t, s.Open(t))
	for text, shown := range map[string]string{
		"\n0 somebody": "somebody", "\n": "", "": "", "\n\n!BREACH": "", "\n\x00\x1b\xff": "\ufffd\ufffd\ufffd",
		"\n" + strings.Repeat("x", 1<<20): strings.Repeat("x", locker.MaxHolder),
	} {
		name := step.LockName(t)
		lease := step.Acquire(t, l, name, locker.WithTTL(itest.LongTTL))
		value, _, _ := strings.Cut(admin.Get(t.Context(), key(name)).Val(), "\n")
		if err := admin.Set(t.Context(), key(name), value+text, itest.LongTTL).Err(); err != nil {
			t.Fatal(err)
		}
		status, err := locker.Inspect(t.Context(), l, name, locker.Look{Waiters: 1})
		if err != nil || status.Holder == nil || status.Holder.Token != lease.Token() || status.Holder.Holder != shown {
			t.Errorf("Inspect of a lease with %.30q = %+v, %v, want its token, and %.30q", text, status.Holder, err, shown)
		}
		if token, err := locker.CurrentToken(t.Context(), l, name, 0); err != nil || token != lease.Token() {
			t.Errorf("CurrentToken with %.30q = %v, %v, want %v", text, token, err, lease.Token())
		}
		if err := step.Renew(t, lease); err != nil {
			t.Errorf("Renew of a lease with %.30q = %v", text, err)
		}
		step.Release(t, lease)
		if n := admin.Exists(t.Context(), key(name)).Val(); n != 0 {
			t.Errorf("the lease with %.30q is still there after its release", text)
		}
	}
}
