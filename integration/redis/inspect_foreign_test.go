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
		status, err := locker.Inspect(t.Context(), l, name, 1)
		if err != nil || status.Holder == nil {
			t.Fatalf("Inspect of %.30q = %+v, %v, want a holder", value, status, err)
		}
		p := *status.Holder
		if p.Expires <= 0 || p.Expires > itest.LongTTL || p != (locker.Party{Expires: p.Expires}) {
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
	status, err := locker.Inspect(t.Context(), l, name, 1)
	if err != nil || len(status.Waiters) != 1 || len(status.Waiters[0].Owner) > 300 {
		t.Errorf("Inspect of a queue with a long entry = %d waiters, %v, want it cut", len(status.Waiters), err)
	}
	if err := admin.Del(t.Context(), key(name)+":queue").Err(); err != nil {
		t.Fatal(err)
	}
	step.Release(t, lease)
}
