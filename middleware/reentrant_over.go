package middleware

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/internal/verdict"
)

// over returns the error of a call whose context is over. h is what it has waited for; nil: it hasn't
// waited. The Locker underneath knows of the first call of the task, and says that the lock is held
// if the service has said so. What the task itself has, or had until now, is known here.
func (r *reentrant) over(ctx context.Context, key holdingKey, h *holding, opts []locker.Option) (locker.Lease, error) {
	lease, err := r.Locker.Acquire(ctx, key.name, opts...)
	if h == nil || locker.Outcome(err) != "error" || !errors.Is(ctx.Err(), context.DeadlineExceeded) || !r.isHeld(key, h) {
		return lease, err
	}
	err = fmt.Errorf("%w: %w", locker.ErrHeld, driver.ContextError(ctx))
	return nil, r.fail(key.name, &verdict.Outcome{Class: "timeout", Err: err})
}

// maxReleaseAge is how long a Release without an answer is taken for one of a service that answers.
// From then on a time-out is a failure of the service, as in the engine.
const maxReleaseAge = time.Second

// isHeld reports whether the lock is known to be held: by the task, or by another holder when the
// first call of the task ran out of time.
func (r *reentrant) isHeld(key holdingKey, h *holding) bool {
	select {
	case <-h.ready:
	default:
		select {
		case <-h.gaveUp: // so the answer comes at once
			<-h.ready
		default:
			return false
		}
	}
	if h.lease == nil {
		return h.timedOut
	}
	lives := h.lease.Err() == nil
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.holdings[key] != h {
		return false
	}
	if h.handles > 0 {
		return lives
	}
	return time.Since(h.dropped) <= maxReleaseAge
}
