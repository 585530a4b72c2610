package callerctx_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker/internal/callerctx"
)

// timed has a deadline of its own.
type timed struct {
	context.Context
	deadline time.Time
	done     chan struct{}
}

func (t timed) Deadline() (time.Time, bool) { return t.deadline, true }
func (t timed) Done() <-chan struct{}       { return t.done }

func TestAwaitEnd(t *testing.T) {
	for name, c := range map[string]struct {
		deadline time.Duration // from now
		endless  bool          // it has no Done
		ends     time.Duration // 0: never
		took     time.Duration
	}{
		"before the deadline":       {time.Minute, false, 0, 0},
		"it ends a moment later":    {-time.Millisecond, false, time.Millisecond, time.Millisecond},
		"it never ends":             {-time.Millisecond, false, 0, time.Second},
		"it has no end to wait for": {-time.Millisecond, true, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				done := make(chan struct{})
				if c.endless {
					done = nil
				}
				if c.ends > 0 {
					time.AfterFunc(c.ends, func() { close(done) })
				}
				callerctx.AwaitEnd(timed{t.Context(), began.Add(c.deadline), done})
				if took := time.Since(began); took != c.took {
					t.Errorf("it took %v, want %v", took, c.took)
				}
			})
		})
	}
	callerctx.AwaitEnd(t.Context()) // no deadline
}
