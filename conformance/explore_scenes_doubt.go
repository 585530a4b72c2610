package conformance

import (
	"time"

	"github.com/fencedlock/locker"
)

// Scenes in which a fault meets a call that begins, is under way, or was just answered. They look
// at the lock before its TTL ends: later nobody can tell what was left.

// looks adds probes in a span.
func (b *builder) looks(id int, from, to time.Duration) {
	for range 1 + b.uniform(3) {
		b.add(Step{At: b.between(from, to), Do: "probe", ID: id})
	}
}

// arrivesTwice has a request of an acquisition arrive twice. The copy comes while the lock is held,
// or after its release, and must change nothing.
func arrivesTwice(b *builder) {
	ttl := b.newTTL()
	number, name := b.disturbable(), b.plainName()
	n := 1 + b.uniform(b.uniform(3)+1)
	b.add(Step{Do: "repeat-request", Locker: number, N: n, There: b.span(0, 0.9)})
	id, from := b.hold(number, name, 0, Step{TTL: ttl})
	at := from + b.spread(time.Millisecond, b.lastTTL)
	b.add(Step{At: at, Do: "release", ID: id})
	if b.chance(2) {
		b.add(Step{At: at, Do: "cancel", ID: id})
	}
	if len(b.service) > 0 && b.chance(3) {
		at = b.disturbService(at + b.spread(100*time.Microsecond, b.lastTTL/4))
	}
	b.looks(id, at, at+b.lastTTL)
}

// doubtfulStart has an acquisition whose first answer is lost or late, and a holder that is silent
// from then on. Somebody waits for the end of its TTL.
func doubtfulStart(b *builder) {
	ttl := b.newTTL()
	number, name := b.disturbable(), b.plainName()
	kinds := []Step{
		{Do: "drop", N: 1}, {Do: "sever"},
		{Do: "delay", There: b.span(0.01, 0.3)}, {Do: "delay", Back: b.span(0.01, 0.3)},
	}
	if b.oneWay {
		kinds = append(kinds, Step{Do: "cut-replies"}, Step{Do: "cut-requests"})
	}
	if b.message {
		kinds = append(kinds, Step{Do: "lose-reply", N: 1},
			Step{Do: "repeat-request", N: 1, There: b.span(0.01, 0.3)})
	}
	s := kinds[b.uniform(len(kinds))]
	s.Locker = number
	b.add(s)
	id := b.newIDs(1)
	silent := b.chance(2)
	b.add(Step{Do: "acquire", Locker: number, Name: name, ID: id, TTL: ttl, Wait: Forever,
		NoRenewal: !silent})
	healed := b.span(0.01, 0.3)
	b.add(Step{At: healed, Do: "heal", Locker: number})
	if silent {
		b.add(Step{At: healed + b.span(0, 0.3), Do: "cut", Locker: number})
	}
	for range 1 + b.uniform(2) {
		b.add(Step{At: b.span(0.05, 0.9), Do: "acquire", Locker: b.other(), Name: name,
			ID: b.newIDs(1), TTL: ttl, Wait: Forever})
	}
	b.add(Step{At: b.span(2, 3), Do: "heal", Locker: number})
	b.add(Step{At: b.span(2, 3), Do: "release", ID: id})
}

// brokenOff has calls under way when the connection breaks or the service restarts.
func brokenOff(b *builder) {
	ttl := b.newTTL()
	number, name := b.disturbable(), b.plainName()
	id, from := b.hold(number, name, 0, Step{TTL: ttl})
	at := from + b.spread(time.Millisecond, b.lastTTL)
	late := b.spread(time.Millisecond, b.lastTTL/4)
	s := Step{At: at, Do: "delay", Locker: number, There: late}
	if b.chance(2) {
		s.There, s.Back = 0, late
	}
	b.add(s)
	b.add(Step{At: at, Do: []Verb{"release", "release", "renew", "cancel"}[b.uniform(4)], ID: id})
	at += b.spread(100*time.Microsecond, late)
	if len(b.service) > 0 && b.chance(3) {
		at = b.disturbService(at)
	} else {
		b.add(Step{At: at, Do: "sever", Locker: number})
	}
	b.add(Step{At: at, Do: "heal", Locker: number})
	b.looks(id, at, at+b.lastTTL)
	b.add(Step{At: at + b.span(0.5, 2), Do: "release", ID: id})
}

// justAnswered has the service fail just after calls were answered. What they have done stays done.
func justAnswered(b *builder) {
	ttl := b.newTTL()
	number, name := b.any(), b.plainName()
	at := time.Duration(0)
	for range 1 + b.uniform(3) {
		id, from := b.hold(number, name, at, Step{TTL: ttl})
		at = from + b.spread(time.Millisecond, b.lastTTL)
		b.add(Step{At: at, Do: []Verb{"release", "release", "renew"}[b.uniform(3)], ID: id})
		at = b.disturbService(at + b.spread(100*time.Microsecond, b.lastTTL/2))
		b.looks(id, at, at+b.lastTTL)
		at += b.span(0, 2)
		b.add(Step{At: at, Do: "release", ID: id})
	}
}

// slowStart has an acquisition that is answered after one or two seconds. If that is too slow for
// the backend, it must remove what it got: the TTL is a little longer than that may take.
func slowStart(b *builder) {
	b.newTTL()
	ttl := b.lastTTL
	if b.bubble {
		ttl = b.between(removalBound+time.Second, removalBound+7*time.Second)
		b.lastTTL = 2 * time.Second
	}
	number, name := b.disturbable(), b.plainName()
	late := b.span(0.2, 1.1)
	s := Step{Do: "delay", Locker: number, There: late}
	if b.chance(3) {
		s.There, s.Back = 0, late
	}
	b.add(s)
	id := b.newIDs(1)
	s = Step{Do: "acquire", Locker: number, Name: name, ID: id, TTL: ttl}
	if b.chance(3) {
		s.Wait = Forever
	}
	b.add(s)
	b.add(Step{At: time.Millisecond, Do: "heal", Locker: number})
	b.looks(id, late, late+ttl)
	b.looks(id, late+ttl-b.lastTTL, late+ttl)
	b.add(Step{At: late + ttl, Do: "release", ID: id})
}

// missedGrant has waiters whose link fails when they are granted their locks. When it works again,
// they must not have to wait for their whole TTL.
func missedGrant(b *builder) {
	ttl := b.newTTL()
	if b.bubble && ttl > 0 && b.g.Waiting >= locker.WaitingNotify {
		ttl = b.spread(20*time.Second, 10*time.Minute)
		b.lastTTL = ttl
	}
	number, name := b.disturbable(), b.plainName()
	n := 1 + b.uniform(4)
	holders, waiters := b.newIDs(n), b.newIDs(n)
	s := Step{Do: "acquire", Locker: b.other(), Name: name, ID: holders, Count: n, TTL: ttl}
	s.Wait = Forever
	b.add(s)
	at := b.spread(time.Millisecond, b.lastTTL/4)
	s.At, s.Locker, s.ID = at, number, waiters
	b.add(s)
	at += b.spread(time.Millisecond, b.lastTTL/2)
	kinds := []Verb{"sever", "cut", "drop"}
	if b.oneWay {
		kinds = append(kinds, "cut-requests", "cut-replies")
	}
	step := b.lastTTL / 20
	for range 1 + b.uniform(2) {
		b.add(Step{At: at, Do: kinds[b.uniform(len(kinds))], Locker: number, N: 1})
		at += b.spread(100*time.Microsecond, step)
	}
	if b.chance(2) {
		b.add(Step{At: at, Do: "sever", Locker: number})
	}
	released := at + b.spread(100*time.Microsecond, step)
	b.add(Step{At: released, Do: "release", ID: holders, Count: n})
	b.add(Step{At: at + b.spread(100*time.Microsecond, 2*step), Do: "heal", Locker: number})
	b.looks(holders, released, released+b.lastTTL)
	b.add(Step{At: released + b.lastTTL, Do: "release", ID: waiters, Count: n})
}
