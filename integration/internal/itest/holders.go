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
	// over is true when the holder knows at the moment now, which is just over, that its lease is lost, and says since when. When it
	// isn't, it says until when the holder would believe in it.
	Over(now time.Time) (over bool, moment time.Time)

	// letGo gives the lock back.
	LetGo(ctx context.Context) error
}

// OwnRule is a holder by a lease.
type OwnRule struct {
	locker.Lease

	mu   sync.Mutex
	done time.Time // when Done was seen to be closed
	slow bool      // another had the lock when Done was still open, though the deadline had come
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

// Over goes by Err, which reads the clock, as Done is closed by a timer, and a busy machine may be late with that. And it goes by
// the deadline: it must have come too, for a holder that learns of its loss by a message of the cluster may learn of it after the
// next one.
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

func (h *OwnRule) LetGo(ctx context.Context) error { return h.Release(ctx) }
