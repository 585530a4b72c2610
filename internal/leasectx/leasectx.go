// Package leasectx is what package locker shares with the engine in package driver and with package
// fence: all leases of a context. Programs see the innermost one, by locker.LeaseFrom.
package leasectx

import "context"

// Key is the key whose value in a context is all its leases, the innermost first, as a
// []locker.Lease. This package can't name that type, because package locker imports it.
type Key struct{}

// All returns the leases of ctx, the innermost first. L is locker.Lease. Leases that have ended are
// among them.
func All[L any](ctx context.Context) []L {
	leases, _ := ctx.Value(Key{}).([]L)
	return leases
}
