package otellocker

import (
	"go.opentelemetry.io/otel/trace"

	"github.com/fencedlock/locker"
)

// holder is the span of the acquisition whose lease holds a lock.
type holder struct {
	id   uint64
	span trace.SpanContext
}

// holders are the holders of this Locker by the names of their locks. Only Observe uses them.
type holders struct {
	l      locker.Locker
	byName map[string]holder
	limit  int // how many there may be before those that no longer hold are looked for
}

func (h *holders) of(name string) (trace.SpanContext, bool) {
	holder, ok := h.byName[name]
	return holder.span, ok
}

func (h *holders) add(name string, id uint64, span trace.SpanContext) {
	h.byName[name] = holder{id, span}
	if len(h.byName) > max(h.limit, 1000) {
		h.prune()
	}
}

func (h *holders) remove(name string, id uint64) {
	if h.byName[name].id == id {
		delete(h.byName, name)
	}
}

// prune removes what isn't held any more, although no event said so: the engine drops events when too
// many wait.
func (h *holders) prune() {
	list, _ := locker.Leases(h.l)
	held := make(map[uint64]bool, len(list))
	for _, info := range list {
		if info.State == "held" { // what was requeued has the same ID, and may still be removed
			held[info.ID] = true
		}
	}
	for name, holder := range h.byName {
		if !held[holder.id] {
			delete(h.byName, name)
		}
	}
	h.limit = 2 * len(h.byName)
}
