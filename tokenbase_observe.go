package locker

import "context"

// The events and leases of a locker with a token base have the tokens that their holders have.

func (b based) Observe(o Observer, kinds EventKind) (stop func(), err error) {
	above := basedObserver{o, b.base}
	if t, ok := o.(Tracer); ok {
		return Observe(b.Locker, basedTracer{above, t}, kinds)
	}
	return Observe(b.Locker, above, kinds)
}

func (b based) Stats() (Stats, bool) { return StatsOf(b.Locker) }

func (b based) Leases() ([]LeaseInfo, bool) {
	list, ok := Leases(b.Locker)
	for i := range list {
		list[i].Token = list[i].Token.above(b.base)
	}
	return list, ok
}

// above returns a token plus base, and 0 for 0, which is no token. A sum that overflows belongs to a lease that Acquire
// gives back at once.
func (t Token) above(base Token) Token {
	if t == 0 {
		return 0
	}
	return t + base
}

type basedObserver struct {
	Observer
	base Token
}

func (o basedObserver) Observe(ctx context.Context, e Event) {
	e.Token = e.Token.above(o.base)
	o.Observer.Observe(ctx, e)
}

type basedTracer struct {
	basedObserver
	tracer Tracer
}

func (o basedTracer) Begin(ctx context.Context, r Request) context.Context {
	return o.tracer.Begin(ctx, r)
}

// Observed leads package otellocker to the locker whose names events have.
func (b based) Observed() Locker { return b.Locker }
