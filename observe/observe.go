// Package observe has observers for lockers: a log, published statistics, a page for operators, and a
// search for locks that nobody releases. It needs the standard library only.
//
//	stop, err := locker.Observe(l, observe.Slog(slog.Default().Handler()), 0)
//	observe.Expvar("locks", l)
//	http.Handle("/debug/locks", observe.Debug(map[string]locker.Locker{"jobs": l}))
//
// docs/observability.md says what each event means.
package observe

import (
	"context"

	"github.com/fencedlock/locker"
)

// Func makes an observer of a function. What [locker.Observer] says of Observe holds for f.
func Func(f func(ctx context.Context, e locker.Event)) locker.Observer { return function(f) }

type function func(context.Context, locker.Event)

func (f function) Observe(ctx context.Context, e locker.Event) { f(ctx, e) }
