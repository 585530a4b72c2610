//go:build unix

package pg

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance"
	"github.com/fencedlock/locker/conformance/step"
	"github.com/fencedlock/locker/integration/internal/itest"
)

// cancelledBeside cancels waits, requests that are under way, and some that have just been granted.
func (s *Service) cancelledBeside(t conformance.T, _ *conformance.Harness) {
	l, other := step.CloseAtEnd(t, s.open(t)), step.CloseAtEnd(t, s.open(t))
	leases := holdMany(t, l, 1000, locker.WithTTL(4*itest.ShortTTL))
	obstacle := step.Acquire(t, other, step.LockName(t))
	base := step.LockName(t)
	var outcomes [3]int // a lease, cancelled, held
	for i := range 500 {
		name := fmt.Sprint(base, "-", i)
		if i%2 == 0 {
			name = obstacle.Name()
		}
		ctx, cancel := context.WithTimeout(t.Context(), rand.N(5*time.Millisecond))
		lease, err := l.Acquire(ctx, name, locker.WithTTL(4*itest.ShortTTL))
		cancel()
		switch {
		case err == nil:
			outcomes[0]++
			step.Release(t, lease)
		case !errors.Is(err, context.DeadlineExceeded):
			t.Fatalf("Acquire whose time was up = %v, want DeadlineExceeded", err)
		case errors.Is(err, locker.ErrHeld):
			outcomes[2]++
		default:
			outcomes[1]++
		}
	}
	t.Logf("of 500 acquisitions %d got a lease, %d ended while they waited, %d before there was an answer", outcomes[0], outcomes[2], outcomes[1])
	step.Pass(t, 4*itest.ShortTTL)
	s.allHeld(t, leases)
	step.Eventually(t, itest.ShortWait, func() error { // what the cancelled ones got is given back
		if n := s.heldLocks(t); n != len(leases)+1 {
			return fmt.Errorf("%d locks are held on the server, want %d", n, len(leases)+1)
		}
		return nil
	})
	step.FreeWithin(t, itest.ShortWait, other, fmt.Sprint(base, "-1"))
}

// blockedToken lets somebody alter the sequence for longer than a TTL, while others ask for tokens
// on the connection of a few leases, which takes function calls, and of a thousand, which takes
// statements.
func (s *Service) blockedToken(t conformance.T, _ *conformance.Harness) {
	for _, n := range []int{20, 1000} {
		s.blockedTokenBeside(t, n)
	}
}

func (s *Service) blockedTokenBeside(t conformance.T, held int) {
	t.Helper()
	const ttl, callers = 4 * itest.ShortTTL, 16 // few enough for function calls
	l, other, name := step.CloseAtEnd(t, s.open(t)), step.CloseAtEnd(t, s.open(t)), step.LockName(t)
	leases := holdMany(t, l, held, locker.WithTTL(ttl))
	step.FreeWithin(t, itest.ShortWait, other, name)
	n, err := s.leader(t.Context())
	if err != nil {
		t.Fatalf("%v", err)
	}
	tx, err := n.admin.Begin(t.Context())
	if err != nil {
		t.Fatalf("%v", err)
	}
	back := sync.OnceFunc(func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) })
	t.Cleanup(back)
	if _, err := tx.Exec(t.Context(), "alter sequence "+pgSequence+" cache 2"); err != nil {
		t.Fatalf("%v", err)
	}
	mine, theirs := step.LockName(t), step.LockName(t)
	_, _ = step.WantFailure(t, itest.ShortWait, l, mine), step.WantFailure(t, itest.ShortWait, other, theirs)
	waiter := step.StartAcquire(t, l, name)
	for end, i := time.Now().Add(2*ttl), 0; time.Now().Before(end); i++ {
		_ = step.WantFailure(t, itest.ShortWait, l, fmt.Sprint(mine, "-", i), locker.WithTTL(ttl))
		var all sync.WaitGroup
		for j := range callers { // each would wait for the sequence, and the renewals behind them
			all.Go(func() {
				_, err := locker.TryAcquire(t.Context(), l, fmt.Sprint(mine, "-", i, "-", j), locker.WithTTL(ttl))
				if err == nil {
					t.Errorf("TryAcquire = a lease, though nobody can draw a token")
				}
			})
		}
		all.Wait()
	}
	s.allHeld(t, leases)
	if waiter.Returned(0) && waiter.Err == nil {
		t.Errorf("Acquire = a lease, though nobody can draw a token")
	}
	waiter.Cancel(nil)
	if !waiter.Returned(itest.ShortWait) {
		t.Errorf("Acquire has not returned %v after it was cancelled", itest.ShortWait)
	}
	back()
	for _, name := range []string{name, mine, mine + "-0", theirs} { // nobody has any of them
		step.FreeWithin(t, itest.ShortWait, other, name)
		step.FreeWithin(t, itest.ShortWait, l, name)
	}
	s.allHeld(t, leases)
}
