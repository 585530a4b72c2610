package membackend_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/membackend"
)

var bob = locker.Breach{By: "bob@ops-1", Reason: "hangs since 17:50"}

// wantBroken checks that a lease has ended now by b.
func wantBroken(t *testing.T, lease locker.Lease, b locker.Breach) {
	t.Helper()
	synctest.Wait()
	select {
	case <-lease.Done():
	default:
		t.Fatal("Done is open")
	}
	var found *locker.Breach
	if err := lease.Err(); !errors.Is(err, locker.ErrLost) || !errors.Is(err, locker.ErrBroken) || !errors.As(err, &found) || locker.LossOf(err) != "broken" {
		t.Fatalf("Err = %v, LossOf = %q", err, locker.LossOf(err))
	}
	if found.By != b.By || found.Reason != b.Reason || found.AtOnce != b.AtOnce || found.At.IsZero() {
		t.Errorf("the lease was lost by %+v, want %+v", found, b)
	}
}

// mustBreak breaks the lease, and checks how long it lasts at most.
func mustBreak(t *testing.T, l locker.Locker, lease locker.Lease, b locker.Breach, within time.Duration) {
	t.Helper()
	effect, err := locker.Break(t.Context(), l, lease.Name(), lease.Token(), b)
	if want := (locker.Effect{Within: within}); effect != want || err != nil {
		t.Fatalf("Break = %+v, %v, want %+v", effect, err, want)
	}
}

var slack = membackend.Guarantees().Expiry.Slack

func TestBreakPassesTheLockOnWhenItIsReleased(t *testing.T) {
	inBubble(t, func(t *testing.T, s *membackend.Server, a, b party) {
		lease := mustAcquire(t, a, "lock")
		waiter := wait(t, b, "lock")
		time.Sleep(time.Second)
		began := time.Now()
		mustBreak(t, b.Locker, lease, bob, ttl-time.Second+slack)
		next := <-waiter
		if next.err != nil || next.lease.Token() <= lease.Token() || next.at.After(began) {
			t.Fatalf("the waiter gets %v, %v after %v, want a lease at once", next.lease, next.err, next.at.Sub(began))
		}
		wantBroken(t, lease, bob)
		if _, err := locker.Break(t.Context(), b.Locker, "lock", lease.Token(), bob); !errors.Is(err, locker.ErrNotHolder) {
			t.Errorf("Break of a lease that is over = %v, want ErrNotHolder", err)
		}
		if err := next.lease.Err(); err != nil {
			t.Errorf("the next lease has ended: %v", err)
		}
	})
}

// The holder of a lease that is marked is not reached: nobody gets in before its deadline, and what
// it sends changes nothing.
func TestBreakOfAHolderThatIsCutOff(t *testing.T) {
	inBubble(t, func(t *testing.T, s *membackend.Server, a, b party) {
		lease := mustAcquire(t, a, "lock")
		began := time.Now()
		waiter := wait(t, b, "lock")
		a.Cut()
		time.Sleep(time.Second)
		mustBreak(t, b.Locker, lease, bob, ttl-time.Second+slack)
		other := locker.Breach{By: "eve"}
		mustBreak(t, b.Locker, lease, other, ttl-time.Second+slack)
		st, err := locker.Inspect(t.Context(), b.Locker, "lock", locker.Look{Waiters: 1})
		if err != nil || st.Holder == nil || st.Holder.Token != lease.Token() || st.Holder.Broken == nil || st.Holder.Broken.By != bob.By || st.Waiting != 1 {
			t.Errorf("Inspect = %+v, %v, want a holder that is broken by bob, and a waiter", st.Holder, err)
		}
		next := <-waiter
		if took := next.at.Sub(began); next.err != nil || took < ttl || took > ttl+slack {
			t.Errorf("the waiter is granted after %v, want %v", took, ttl)
		}
		if err := lease.Err(); !errors.Is(err, locker.ErrLost) {
			t.Errorf("Err = %v, want ErrLost", err)
		}
		a.Heal()
		time.Sleep(ttl)
		if st, err := locker.Inspect(t.Context(), b.Locker, "lock", locker.Look{Waiters: 1}); err != nil || st.Holder == nil || st.Holder.Token != next.lease.Token() || st.Holder.Broken != nil {
			t.Errorf("Inspect = %+v, %v, want the next holder alone", st.Holder, err)
		}
	})
}

// A holder that hasn't got the push learns of the break, and of whose it was, at its next renewal.
func TestBreakThatIsSeenAtTheRenewal(t *testing.T) {
	for _, b := range []locker.Breach{bob, {By: "bob", AtOnce: true}} {
		inBubble(t, func(t *testing.T, s *membackend.Server, a, other party) {
			lease := mustAcquire(t, a, "lock")
			a.CutReplies()
			within := ttl + slack
			if b.AtOnce {
				within = 0
			}
			mustBreak(t, other.Locker, lease, b, within)
			a.Heal()
			if err := lease.Err(); err != nil {
				t.Fatalf("Err = %v, want nil: no message has arrived", err)
			}
			if next, err := locker.TryAcquire(t.Context(), other, "lock"); (err == nil) != b.AtOnce {
				t.Errorf("TryAcquire = %v, %v", next, err)
			}
			if err := lease.Renew(t.Context()); !errors.Is(err, locker.ErrBroken) {
				t.Errorf("Renew = %v, want ErrBroken", err)
			}
			wantBroken(t, lease, b)
			if _, err := locker.TryAcquire(t.Context(), other, "lock"); (err == nil) == b.AtOnce {
				t.Errorf("TryAcquire = %v, after the holder has released what was marked", err)
			}
		})
	}
}

func TestBreakAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, s *membackend.Server, a, b party) {
		lease := mustAcquire(t, a, "lock")
		waiter := wait(t, b, "lock")
		began := time.Now()
		now := locker.Breach{By: "bob", AtOnce: true}
		mustBreak(t, b.Locker, lease, now, 0)
		if next := <-waiter; next.err != nil || next.at.After(began) {
			t.Errorf("the waiter gets %v, %v after %v", next.lease, next.err, next.at.Sub(began))
		}
		wantBroken(t, lease, now)
	})
}

func TestBreakOfAServiceThatFails(t *testing.T) {
	inBubble(t, func(t *testing.T, s *membackend.Server, a, b party) {
		lease := mustAcquire(t, a, "lock")
		down := errors.New("down")
		s.Fail(down)
		if _, err := locker.Break(t.Context(), b.Locker, "lock", lease.Token(), bob); !errors.Is(err, down) || errors.Is(err, locker.ErrNotHolder) {
			t.Errorf("Break = %v, want the service's error", err)
		}
		s.Fail(nil)
		if _, err := locker.Break(t.Context(), b.Locker, "none", lease.Token(), bob); !errors.Is(err, locker.ErrNotHolder) {
			t.Errorf("Break of a free lock = %v, want ErrNotHolder", err)
		}
		if _, err := locker.Break(t.Context(), b.Locker, "lock", lease.Token()+1, bob); !errors.Is(err, locker.ErrNotHolder) {
			t.Errorf("Break with another token = %v, want ErrNotHolder", err)
		}
		if err := lease.Err(); err != nil {
			t.Errorf("Err = %v, want nil: the lease is held", err)
		}
	})
}
