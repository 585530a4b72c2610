package locker_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/membackend"
)

// ignoresContext is a Locker that says of each wait that the caller has the slot itself, refuses
// each slot while ctx lives, and grants slots when ctx is over.
type ignoresContext struct {
	locker.Locker
	over atomic.Int32 // grants with a context that is over
}

func (d *ignoresContext) Acquire(ctx context.Context, name string, opts ...locker.Option) (locker.Lease, error) {
	req, err := locker.Resolve(name, opts...)
	switch {
	case err != nil || req.Slot < 1:
	case !req.NoWait:
		return nil, &locker.Error{Op: "acquire", Name: name, Err: locker.ErrHeldByCaller}
	case ctx.Err() == nil:
		return nil, &locker.Error{Op: "acquire", Name: name, Err: locker.ErrHeld}
	default:
		d.over.Add(1)
		return d.Locker.Acquire(context.WithoutCancel(ctx), name, opts...)
	}
	return d.Locker.Acquire(ctx, name, opts...)
}

// What a Locker grants though the context is over must not be kept, and the call must return.
func TestPermitOfALockerThatIgnoresItsContext(t *testing.T) {
	bubble(t, func(t *testing.T, s *membackend.Server) {
		d := &ignoresContext{Locker: openMem(t, s)}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		lease, err := locker.AcquirePermit(ctx, d, "job", 2*queuesOfTheFirst)
		if lease != nil || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("AcquirePermit = %v, %v, want DeadlineExceeded", lease, err)
		}
		wantErr(t, "AcquirePermit", err, "job", context.DeadlineExceeded)
		if n := d.over.Load(); n > 1 {
			t.Errorf("%d slots were granted when the context was over, want at most one", n)
		}
	})
}
