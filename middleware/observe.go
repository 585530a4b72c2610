package middleware

import "github.com/fencedlock/locker"

// A prefix hides nothing from observers: events and leases have the whole names, which operators see on the service.

func (p prefixed) Observe(o locker.Observer, kinds locker.EventKind) (stop func(), err error) {
	return locker.Observe(p.Locker, o, kinds)
}

func (p prefixed) Stats() (locker.Stats, bool)        { return locker.StatsOf(p.Locker) }
func (p prefixed) Leases() ([]locker.LeaseInfo, bool) { return locker.Leases(p.Locker) }

// Observed leads package otellocker to the locker whose names events have.
func (p prefixed) Observed() locker.Locker { return p.Locker }
