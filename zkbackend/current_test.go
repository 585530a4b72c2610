package zkbackend_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker"
)

// The session that is asked may have to be opened first. Who asks for it waits no longer than its context, and the session
// is opened all the same, for the next one.
func TestCurrentWhileASessionOpens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		l := open(t, s)
		lease := acquire(t, l, "a")
		s.expire(s.last)
		lost(t, soon, lease, "ended the session")
		s.mu.Lock()
		s.muted = true
		s.mu.Unlock()
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		began := time.Now()
		_, err := locker.Current(ctx, l, "a")
		if took := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || took != 100*time.Millisecond {
			t.Errorf("Current = %v after %v, want DeadlineExceeded after 100ms", err, took)
		}
		s.mu.Lock()
		s.muted = false
		s.mu.Unlock()
		lease = acquire(t, l, "a")
		if token, err := locker.Current(t.Context(), l, "a"); err != nil || token != lease.Token() {
			t.Errorf("Current = %v, %v, want %v", token, err, lease.Token())
		}
		release(t, lease)
	})
}
