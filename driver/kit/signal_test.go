package kit_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker/driver/kit"
)

func TestSignal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := kit.NewSignal()
		wait := func(what string, ctx context.Context, d, want time.Duration, match error) {
			t.Helper()
			began := time.Now()
			err := s.Wait(ctx, d)
			if (err == nil) != (match == nil) {
				t.Errorf("%s: Wait = %v, want %v", what, err, match)
			} else if match != nil {
				matches(t, what, err, match)
			}
			if took := time.Since(began); took != want {
				t.Errorf("%s: it took %v, want %v", what, took, want)
			}
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		s.Set()
		s.Set() // doesn't block, and is one with the first
		wait("it was set before", ctx, time.Minute, 0, nil)
		wait("nothing happens", ctx, time.Minute, time.Minute, nil)
		time.AfterFunc(time.Second, s.Set)
		wait("it is set", ctx, time.Minute, time.Second, nil)
		time.AfterFunc(time.Second, func() { cancel(errCause) })
		wait("the caller leaves", ctx, time.Minute, time.Second, errCause)
		for range 100 { // whatever select would choose
			wait("the caller has left, and the time is over", ctx, 0, 0, errCause)
			s.Set()
			wait("the caller has left, and it was set", ctx, 0, 0, nil)
		}
		kit.Signal(nil).Set() // doesn't block either
	})
}
