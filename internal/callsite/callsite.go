// Package callsite is what package locker shares with package observe: where a call was made that
// acquires locks on goroutines of its own.
package callsite

import (
	"context"
	"runtime"
	"sync/atomic"
)

// Most is how many callers are noted at most.
const Most = 32

type key struct{}

var wanted atomic.Int32 // how many want to know

// Want has callers noted from now on, until end is called, once.
func Want() (end func()) {
	wanted.Add(1)
	return func() { wanted.Add(-1) }
}

// Note returns a context that has the callers of its caller, if somebody wants to know.
func Note(ctx context.Context) context.Context {
	if wanted.Load() == 0 || Of(ctx) != nil { // an outer call has noted more
		return ctx
	}
	pcs := make([]uintptr, Most)
	return context.WithValue(ctx, key{}, pcs[:runtime.Callers(2, pcs)])
}

// Of returns the callers that were noted, the innermost first, as of [runtime.Callers]; nil: none were.
func Of(ctx context.Context) []uintptr {
	pcs, _ := ctx.Value(key{}).([]uintptr)
	return pcs
}
