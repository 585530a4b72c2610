package zkbackend_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
)

// A failure that takes time has no error of a context.
func TestSilentServerIsNoContextError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		l := open(t, s)
		s.mu.Lock()
		s.muted = true
		s.mu.Unlock()
		_, err := l.Acquire(context.WithoutCancel(t.Context()), "a")
		if err == nil || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) || !contains(err, "no connection") {
			t.Errorf("Acquire on a server that is silent = %v, want an error that isn't the caller's", err)
		}
		s.mu.Lock()
		s.muted = false
		s.mu.Unlock()
		s.sever()
	})
}
