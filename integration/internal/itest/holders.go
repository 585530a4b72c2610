//go:build unix

package itest

import (
	"context"
	"sync"
	"time"

	"github.com/fencedlock/locker"
)

// Holder is a holder of a lock.
type Holder interface {
	// Over reports whether the holder knew at the moment now, which has just passed, that its lease
	// is lost. If so, moment is when the holder learned that; if not, it is when the holder stops
	// believing in its lease.
	Over(now time.Time) (over bool, moment time.Time)

	// Release releases the lock.
	Release(ctx context.Context) error
}

// OwnRule is a holder that follows its locker.Lease.
type OwnRule struct {
	locker.Lease

	mu   sync.Mutex
	done time.Time // when Done was seen to be closed
	slow bool      // another one had the lock when Done was still open, although the deadline had passed
}

func NewOwnRule(lease locker.Lease) *OwnRule {
	h := &OwnRule{Lease: lease}
	go func() {
		<-lease.Done()
		h.mu.Lock()
		defer h.mu.Unlock()
		h.done = time.Now()
	}()
	return h
}

// Over uses Err, which reads the clock: Done is closed by a timer, and a timer may be late on a
// busy machine. The deadline must also have passed, because a holder that learns of its loss by a
// message of the cluster may learn of it after the next holder has the lock.
func (h *OwnRule) Over(now time.Time) (bool, time.Time) {
	open := true
	select {
	case <-h.Done():
		open = false
	default:
	}
	if h.Err() == nil || h.Deadline().After(now) {
		return false, h.Deadline()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.slow = open
	if h.done.IsZero() || h.done.After(now) {
		return true, h.Deadline()
	}
	return true, h.done
}

func (h *OwnRule) WasSlow() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.slow
}
