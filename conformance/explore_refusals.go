package conformance

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/fencedlock/locker"
)

// Calls that every backend must refuse.

// badArgumentList has arguments of Acquire, and the error that each must match.
var badArgumentList = []struct {
	what string
	name func(string) string
	opts []locker.Option
	want error
}{
	{"no name", func(string) string { return "" }, nil, locker.ErrName},
	{"a name that is too long", func(name string) string { return name + strings.Repeat("x", locker.MaxName) }, nil, locker.ErrName},
	{"a newline in the name", func(name string) string { return name + "\n" }, nil, locker.ErrName},
	{"a NUL in the name", func(name string) string { return name + "\x00b" }, nil, locker.ErrName},
	{"a name that isn't UTF-8", func(name string) string { return name + "\xff" }, nil, locker.ErrName},
	{"a TTL of zero", nil, []locker.Option{locker.WithTTL(0)}, locker.ErrOption},
	{"a negative TTL", nil, []locker.Option{locker.WithTTL(-time.Second)}, locker.ErrOption},
	{"a longest hold of zero", nil, []locker.Option{locker.WithMaxHold(0)}, locker.ErrOption},
}

// invalid calls Acquire with arguments that make no sense.
func (x *execution) invalid(p *party, name string, which int) {
	bad := badArgumentList[which%len(badArgumentList)]
	if bad.name != nil {
		name = bad.name(name)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if p.closing.happened() {
		return
	}
	x.steps++
	x.run(func() {
		ctx, cancel := context.WithTimeout(x.ctx, tryLimit)
		defer cancel()
		lease, err := p.l.Acquire(ctx, name, append([]locker.Option{locker.NoWait()}, bad.opts...)...)
		x.mu.Lock()
		defer x.mu.Unlock()
		if !errors.Is(err, bad.want) && !p.closing.happened() {
			x.breach(answersMatch, "Acquire with %s = %v, %v, want an error that matches: %v", bad.what, lease, err, bad.want)
		}
	})
}

// nest asks for a lock with a context of the lease that has it.
func (x *execution) nest(a *attempt) {
	x.mu.Lock()
	live := a.isLive()
	x.probes++
	id := -x.probes
	x.mu.Unlock()
	if live {
		x.ask(&attempt{id: id, party: a.party, name: a.name, lock: a.lock, step: Step{}, inside: a})
	}
}
