package otellocker

import (
	"go.opentelemetry.io/otel/trace"

	"github.com/fencedlock/locker"
)

// holder is the span of the acquisition whose lease holds a lock.
type holder struct {
	id   uint64
	span trace.Span // it has ended
}

// subject is a lock, or a slot of its name.
type subject struct {
	name string
	slot int
}

func subjectOf(e *locker.Event) subject { return subject{e.Name, e.Slot} }

// holders are the holders of this Locker by what they hold. Only Observe uses them.
type holders struct {
	l     locker.Locker
	of    map[subject]holder
	limit int // how many there may be before those that no longer hold are looked for
}

func (h *holders) find(held subject) (trace.SpanContext, bool) {
	holder, ok := h.of[held]
	if !ok {
		return trace.SpanContext{}, false
	}
	return holder.span.SpanContext(), true
}

func (h *holders) add(held subject, id uint64, span trace.Span) {
	h.of[held] = holder{id, span}
	if len(h.of) > max(h.limit, 1000) {
		h.prune()
	}
}

func (h *holders) remove(held subject, id uint64) {
	if h.of[held].id == id {
		delete(h.of, held)
	}
}

// prune removes what isn't held any more, although no event said so: the engine drops events when too
// many wait.
func (h *holders) prune() {
	list, _ := locker.Leases(h.l)
	ids := make(map[uint64]bool, len(list))
	for _, info := range list {
		// What was requeued has the same ID, and may still be removed. The first in the line for permits holds the
		// line's lock, and waits.
		if info.State == locker.StateHeld || info.State == locker.StateWaiting && info.Token != 0 {
			ids[info.ID] = true
		}
	}
	for held, holder := range h.of {
		if !ids[holder.id] {
			delete(h.of, held)
		}
	}
	h.limit = 2 * len(h.of)
}
