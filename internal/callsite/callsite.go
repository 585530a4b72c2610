// Package callsite is what package locker shares with package observe: where a call was made that
// acquires locks on goroutines of its own.
package callsite

import (
	"context"
	"runtime"
)

// Most is how many callers are noted at most.
const Most = 32

type key struct{}

// Note returns a context that has the callers of its caller.
func Note(ctx context.Context) context.Context {
	if Of(ctx) != nil {
		return ctx // an outer call has noted more
	}
	pcs := make([]uintptr, Most)
	return context.WithValue(ctx, key{}, pcs[:runtime.Callers(2, pcs)])
}

// Of returns the callers that were noted, the innermost first, as of [runtime.Callers]; nil: none were.
func Of(ctx context.Context) []uintptr {
	pcs, _ := ctx.Value(key{}).([]uintptr)
	return pcs
}
