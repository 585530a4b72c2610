package reference

import (
	"time"

	"github.com/fencedlock/locker/driver"
)

// maxLifetime is longer than any message is on its way, and so is the life of a tombstone.
const maxLifetime = 24 * time.Hour

// tombstones are the owners of acquisitions that have ended. No request creates anything for them
// any more. The zero value is empty.
type tombstones struct {
	until map[string]driver.Instant
	order []string // in which they were made, and in which they end
}

// bury notes that an acquisition has ended.
func (s *Service) bury(c claim, now driver.Instant) {
	s.data.tombstones.add(c.owner, now, maxLifetime)
}

func (t *tombstones) add(owner string, now driver.Instant, life time.Duration) {
	for len(t.order) > 0 && now >= t.until[t.order[0]] {
		delete(t.until, t.order[0])
		t.order = t.order[1:]
	}
	if t.until == nil {
		t.until = make(map[string]driver.Instant)
	}
	if _, again := t.until[owner]; !again {
		t.order = append(t.order, owner)
		t.until[owner] = now.Add(life)
	}
}

func (t *tombstones) has(owner string, now driver.Instant) bool {
	until, ok := t.until[owner]
	return ok && now < until
}
