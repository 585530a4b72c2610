//go:build unix

package integration

import (
	"slices"

	"github.com/fencedlock/locker/conformance"
)

// pack is what Postgres must show beyond the suite, in the way in which this service is run.
func (s *pgService) pack(t conformance.T) []conformance.Case {
	switch {
	case !s.timed(t):
		tx := slices.DeleteFunc(s.txPack(), func(c conformance.Case) bool { return c.ID == "I65" }) // which waits for longer than a TTL
		return slices.Concat(s.untimedPack(), s.crashPack()[:1], tx, s.collisionPack())
	case s.failing:
		return s.replicaPack()
	case s.bouncer != nil:
		return slices.Concat(s.bouncerPack(), s.silentPack(), s.manyPack(), s.txPack())
	}
	return slices.Concat(s.crashPack(), s.turnPack(), s.silentPack(), s.manyPack(), s.closePack(), s.settingsPack(), s.txPack(), s.collisionPack())
}
