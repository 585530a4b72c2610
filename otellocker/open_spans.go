package otellocker

import (
	"time"

	"github.com/fencedlock/locker"
)

// openSpans are the acquisitions whose span of the lease hasn't ended, by ID. Only Observe uses them.
// A lease whose removal Close gives up has no event that says that it has ended.
type openSpans struct {
	l     locker.Locker
	of    map[uint64]*acquisition
	limit int // how many there may be before those that are over are looked for
}

func (o *openSpans) add(id uint64, a *acquisition) {
	o.of[id] = a
	if len(o.of) > max(o.limit, 1000) {
		o.prune()
	}
}

// prune forgets the spans of leases that are over, although no event said so: the engine drops events
// when too many wait.
func (o *openSpans) prune() {
	list, _ := locker.Leases(o.l)
	ids := make(map[uint64]bool, len(list))
	for _, info := range list {
		ids[info.ID] = true
	}
	for id := range o.of {
		if !ids[id] {
			delete(o.of, id)
		}
	}
	o.limit = 2 * len(o.of)
}

// endAll ends what is left at the end of Close: when the first try to remove the lease had failed, or
// now.
func (o *openSpans) endAll(now time.Time) {
	for _, a := range o.of {
		at := now
		if !a.removing.IsZero() {
			at = a.removing
		}
		end(a.lease, at)
	}
	clear(o.of)
}
