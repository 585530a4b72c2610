package etcdbackend

import (
	"context"
	"time"

	"github.com/fencedlock/locker/driver/kit"
	"github.com/fencedlock/locker/internal/etcdconn"
)

// A watch that begins again doesn't report what it has missed, and not every lease is renewed. So the
// keys of such watches are read, in one task, until there is an answer for each.

// recheckAgain is the pause after a read without an answer.
const recheckAgain = 500 * time.Millisecond

// recheckUnwatched begins to read the keys whose watches have begun again. If that goes on already, these
// are read as well.
func (h *heldWatches) recheckUnwatched() {
	if len(h.unwatched) > 0 && !h.rechecking {
		h.rechecking = true
		h.recheck()
	}
}

// recheck finds out in the background which of the keys don't exist any more, or are marked.
func (d *etcdDriver) recheck() {
	d.tasks.Go(func(life context.Context) {
		for some := d.watches.takeUnwatched(); len(some) > 0; some = d.watches.takeUnwatched() {
			if d.readHeld(life, some) {
				continue
			}
			d.watches.putUnwatched(some)
			if !kit.Sleep(life, recheckAgain) {
				return
			}
		}
	})
}

// takeUnwatched takes locks whose keys are to be read, and that are still held. The recheck is over when
// there are none.
func (w *watches) takeUnwatched() (some []*lock) {
	w.mu.Lock()
	defer w.mu.Unlock()
	h := &w.held
	for l := range h.unwatched {
		if len(some) == maxChecks {
			break
		}
		delete(h.unwatched, l)
		if _, held := h.watched[l]; held {
			some = append(some, l)
		}
	}
	h.rechecking = len(some) > 0
	return some
}

// putUnwatched puts back what could not be read.
func (w *watches) putUnwatched(some []*lock) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, l := range some {
		w.held.unwatched[l] = struct{}{}
	}
}

// readHeld notifies the locks whose keys don't exist any more, or are marked. It is false when there was
// no answer.
func (d *etcdDriver) readHeld(ctx context.Context, part []*lock) bool {
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	cmps, reads := checksOf(part)
	r, err := d.cluster.Txn(ctx, etcdconn.MaxAttempt, cmps, reads[:1], reads)
	if err != nil {
		return false
	}
	for i, l := range part {
		if r.Succeeded {
			continue
		}
		if err := l.sawKey(r.Responses[i].GetResponseRange().Kvs, r.Header.Revision); err != nil {
			l.notifyLost(err)
		}
	}
	return true
}
