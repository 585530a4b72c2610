//go:build unix

package pg

import (
	"slices"

	"github.com/fencedlock/locker/conformance"
)

// pack contains the cases of Postgres for this service, in addition to the suite.
func (s *Service) pack() []conformance.Case {
	switch {
	case s.failing:
		return s.replicaPack()
	case s.bouncer != nil:
		return slices.Concat(s.bouncerPack(), s.pathPack(), s.silentPack(), s.manyPack(), s.txPack())
	}
	return slices.Concat(s.crashPack(), s.diskPack(), s.turnPack(), s.silentPack(), s.manyPack(), s.closePack(), s.settingsPack(), s.movePack(), s.pathPack(), s.txPack(), s.collisionPack())
}
