package conformance

import "time"

// Scenes about one holder.

// heldThroughFault has a rival wait all the time while the holder's network or the service fails.
func heldThroughFault(b *builder) {
	ttl := b.newTTL()
	number, name := b.disturbable(), b.plainName()
	id, from := b.hold(number, name, 0, b.options(Step{TTL: ttl}))
	for range 1 + b.uniform(3) {
		rival := Step{At: from + b.span(0, 1), Do: "acquire", Locker: b.any(), Name: name, ID: b.newIDs(1), TTL: b.otherTTL(ttl), Wait: Forever}
		b.add(rival)
		if b.chance(4) {
			b.add(Step{At: rival.At + b.span(0, 3), Do: "cancel", ID: rival.ID})
		}
	}
	at := from
	for range 1 + b.uniform(2) {
		if b.linked && b.chance(2) {
			b.add(Step{At: at, Do: "delay", Locker: number, Back: b.span(0.01, 0.12)})
		}
		at = b.disturb(number, at+b.span(0, 1.2))
	}
	b.during(id, name, from, at+2*b.lastTTL)
	b.add(Step{At: at + b.span(0, 2), Do: "release", ID: id})
}

// deadHolder has a holder that is silent for ever, or doesn't renew. Its lock must end with its
// TTL: not before, and not much later.
func deadHolder(b *builder) {
	ttl := b.newTTL()
	number, name := b.disturbable(), b.plainName()
	s := Step{TTL: ttl, NoRenewal: b.chance(2)}
	id, from := b.hold(number, name, 0, s)
	if b.chance(2) {
		b.add(Step{At: from + b.span(0.1, 3), Do: "renew", ID: id})
	}
	cut := from + b.span(0, 3)
	if b.linked {
		if b.chance(2) {
			b.add(Step{At: max(0, cut-b.span(0.02, 0.5)), Do: "delay", Locker: number, Back: b.span(0.01, 0.12)})
		}
		kind := Verb("cut")
		if b.oneWay && b.chance(4) {
			kind = "cut-requests"
		}
		b.add(Step{At: cut, Do: kind, Locker: number})
	}
	for range b.uniform(3) {
		b.add(Step{At: b.between(from, cut+b.lastTTL), Do: "acquire", Locker: b.other(), Name: name, ID: b.newIDs(1), TTL: b.otherTTL(ttl), Wait: Forever})
	}
	b.during(id, name, from, cut+3*b.lastTTL)
	for range b.uniform(3) { // about when its time is up
		b.add(Step{At: cut + b.span(0.6, 1.1), Do: []Verb{"probe", "read"}[b.uniform(2)], ID: id, Locker: b.other(), Name: name})
	}
	if b.chance(3) { // with its answer still to come when others ask
		b.add(Step{At: cut + b.span(0, 0.4), Do: "release", ID: id})
	}
	over := cut + b.lastTTL + b.g.Expiry.Slack + b.slack
	for range b.uniform(3) {
		b.add(Step{At: over + b.span(0.05, 1), Do: []Verb{"probe", "read"}[b.uniform(2)], ID: id, Locker: b.other(), Name: name})
	}
	if b.chance(2) {
		over += 2 * b.lastTTL
	}
	heal := over + 2*time.Second + b.spread(time.Millisecond, 3*b.lastTTL)
	b.add(Step{At: heal, Do: "heal", Locker: number})
	b.add(Step{At: heal + b.span(0, 1), Do: "release", ID: id})
}

// shortOfTTL has leases that their holder doesn't renew, or renews by hand, and whose removal by
// others may come too late.
func shortOfTTL(b *builder) {
	ttl := b.newTTL()
	number, name := b.any(), b.plainName()
	at := time.Duration(0)
	for range 1 + b.uniform(4) {
		s := b.options(Step{At: at, Do: "acquire", Locker: number, Name: name, ID: b.newIDs(1), TTL: b.otherTTL(ttl), Wait: Forever, NoRenewal: b.ttl > 0})
		b.add(s)
		for range b.uniform(3) {
			b.add(Step{At: at + b.span(0, 2), Do: "renew", ID: s.ID})
		}
		at += b.span(0.3, 2)
		if b.chance(3) {
			b.add(Step{At: at, Do: "release", ID: s.ID})
		}
	}
	b.add(Step{At: at + b.span(0, 3), Do: "release", ID: 1, Count: b.ids})
	b.add(Step{At: b.between(0, at), Do: "probe", ID: b.ids})
	b.add(Step{At: at + b.span(0, 3), Do: "probe", ID: b.ids})
}

// tokensInTurn takes the lock again and again, from several Lockers, while the service fails or the
// name is idle.
func tokensInTurn(b *builder) {
	ttl := b.newTTL()
	name := b.plainName()
	at := time.Duration(0)
	for range 2 + b.uniform(8) {
		id := b.newIDs(1)
		b.add(Step{At: at, Do: "acquire", Locker: b.any(), Name: name, ID: id, TTL: ttl, Wait: 5 * time.Second})
		at += b.spread(time.Millisecond, b.lastTTL)
		if b.chance(3) {
			b.add(Step{At: at, Do: "read", Locker: b.other(), Name: name})
		}
		if !b.chance(5) {
			b.add(Step{At: at, Do: "release", ID: id})
		}
		if b.chance(4) {
			at = b.disturb(b.disturbable(), at)
		}
		at += b.spread(time.Millisecond, 2*b.lastTTL)
	}
}

// longHold has a lease for very many TTLs, or names that are idle for very long.
func longHold(b *builder) {
	ttl := b.newTTL()
	number, name := b.any(), b.plainName()
	most := 60.0
	if !b.bubble {
		most = 4
	}
	id, from := b.hold(number, name, 0, Step{TTL: ttl})
	until := from + b.span(3, most)
	b.add(Step{At: from + b.span(0, 3), Do: "acquire", Locker: b.other(), Name: name, ID: b.newIDs(1), TTL: b.otherTTL(ttl), Wait: Forever})
	b.during(id, name, from, until)
	if b.linked && b.chance(2) {
		b.add(Step{At: until - b.span(0, 2), Do: "cut", Locker: number})
		b.add(Step{At: until + b.span(1, 2), Do: "heal", Locker: number})
	}
	b.add(Step{At: until, Do: "release", ID: id})
}

// removal has an operator take a lock away, and a rival that gets it.
func removal(b *builder) {
	ttl := b.newTTL()
	number, name := b.disturbable(), b.plainName()
	id, from := b.hold(number, name, 0, b.options(Step{TTL: ttl}))
	b.add(Step{At: from + b.span(0, 2), Do: "acquire", Locker: b.any(), Name: name, ID: b.newIDs(1), TTL: b.otherTTL(ttl), Wait: Forever})
	at := from + b.span(0.1, 2)
	if b.linked && b.chance(2) {
		b.missNotice(number, name, ttl, at)
	}
	b.add(Step{At: at, Do: "remove", ID: id})
	for _, do := range []Verb{"renew", "release", "probe"} {
		if b.chance(2) {
			b.add(Step{At: at + b.span(0, 1), Do: do, ID: id})
		}
	}
	b.add(Step{At: at + b.span(0, 2), Do: "read", Locker: b.other(), Name: name})
	b.add(Step{At: at + b.span(0.5, 3), Do: "probe", ID: id})
}

// missNotice has the notice of a removal come late, or not at all. The link is soon healed, and the
// same Locker asks for the lock again.
func (b *builder) missNotice(number, name int, ttl, at time.Duration) {
	kinds := []Step{{Do: "delay", Back: b.span(0.01, 0.3)}, {Do: "delay", Back: b.span(0.01, 0.3)}, {Do: "drop", N: 1}, {Do: "cut"}}
	if b.oneWay {
		kinds = append(kinds, Step{Do: "cut-replies"})
	}
	s := kinds[b.uniform(len(kinds))]
	s.At, s.Locker = at, number
	b.add(s)
	next := Step{At: at + b.span(0.001, 0.2), Do: "acquire", Locker: number, Name: name, ID: b.newIDs(1), TTL: ttl}
	if b.chance(2) {
		next.Wait = Forever
	}
	b.add(next)
	b.add(Step{At: at + b.span(0.0001, 0.2), Do: "heal", Locker: number})
}

// hugeTTL has TTLs of hours, days or months, for a few minutes.
func hugeTTL(b *builder) {
	if b.alone = len(b.p.Steps) == 0; !b.alone {
		return // in another scene somebody might have to wait for that TTL
	}
	ttl := b.spread(10*time.Minute, 100*24*time.Hour).Truncate(time.Millisecond)
	b.lastTTL = time.Minute
	number, name := b.any(), b.plainName()
	id := b.newIDs(1)
	b.add(Step{Do: "acquire", Locker: number, Name: name, ID: id, TTL: ttl, NoRenewal: b.chance(2)})
	if b.chance(2) {
		b.add(Step{At: time.Second, Do: "renew", ID: id})
	}
	for _, at := range []time.Duration{time.Millisecond, 2 * time.Second, 3 * time.Minute, 20 * time.Minute, time.Hour} {
		b.add(Step{At: at, Do: "probe", ID: id})
	}
	b.add(Step{At: 70 * time.Minute, Do: "release", ID: id})
}
