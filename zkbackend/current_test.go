package zkbackend_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker"
)

// The session for the request may have to be opened first. A caller waits no longer than its
// context, and the session is opened all the same, for the next one.
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
		_, err := locker.CurrentToken(ctx, l, "a", 0)
		if took := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || took != 100*time.Millisecond {
			t.Errorf("CurrentToken = %v after %v, want DeadlineExceeded after 100ms", err, took)
		}
		s.mu.Lock()
		s.muted = false
		s.mu.Unlock()
		lease = acquire(t, l, "a")
		if token, err := locker.CurrentToken(t.Context(), l, "a", 0); err != nil || token != lease.Token() {
			t.Errorf("CurrentToken = %v, %v, want %v", token, err, lease.Token())
		}
		release(t, lease)
	})
}

// What no server answers is no deadline of the caller's, unless it was that; and then the cause is
// there too.
func TestCurrentWithoutAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		l := open(t, s)
		s.mu.Lock()
		s.muted = true
		s.mu.Unlock()
		s.sever()
		if _, err := locker.CurrentToken(t.Context(), l, "a", 0); err == nil || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("CurrentToken = %v, want an error that isn't the caller's deadline", err)
		}
		because := errors.New("because")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(100*time.Millisecond, func() { cancel(because) })
		if _, err := locker.CurrentToken(ctx, l, "a", 0); !errors.Is(err, context.Canceled) || !errors.Is(err, because) {
			t.Errorf("CurrentToken of somebody who gave up = %v, want Canceled and the cause", err)
		}
		s.mu.Lock()
		s.muted = false
		s.mu.Unlock()
	})
}

// The end of a connection or a session isn't reported; the next one answers.
func TestCurrentGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		l, other := open(t, s), open(t, s)
		lease := acquire(t, other, "a")
		current := func(after string) {
			if token, err := locker.CurrentToken(t.Context(), l, "a", 0); err != nil || token != lease.Token() {
				t.Errorf("CurrentToken after %s = %v, %v, want %v", after, token, err, lease.Token())
			}
		}
		s.once("multi", hangUp)
		current("the end of the connection")
		s.scripts(nil)
		s.mu.Lock()
		s.keeps = true
		s.endSession(3)
		s.keeps = false
		s.mu.Unlock()
		current("the end of the session, on a server that keeps the connection")
		release(t, lease)
	})
}
