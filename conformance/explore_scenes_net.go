package conformance

import "time"

// Scenes about messages that are lost or late, and services that are down.

// lateMessages has requests that arrive when what they ask for is over, or whose reply is lost, and
// others that overtake them.
func lateMessages(b *builder) {
	ttl := b.newTTL()
	number, name := b.disturbable(), b.plainName()
	id := b.newIDs(1)
	at := time.Duration(0)
	fault := func() { // of what is sent next
		switch s := (Step{At: at, Locker: number, N: 1 + b.uniform(2), There: b.spread(time.Millisecond, 2*b.lastTTL)}); {
		case b.message && b.chance(2):
			s.Do = []Verb{"lose-request", "lose-reply", "delay-request", "repeat-request"}[b.uniform(4)]
			b.add(s)
		case b.chance(2):
			b.add(Step{At: at, Do: "drop", Locker: number, N: s.N})
		default:
			b.add(Step{At: at, Do: "delay", Locker: number, There: s.There})
		}
	}
	if b.chance(3) {
		fault()
	}
	wait := Forever
	if b.chance(2) {
		wait = b.span(0.05, 1)
	}
	b.add(Step{At: at, Do: "acquire", Locker: number, Name: name, ID: id, TTL: ttl, Wait: wait})
	for range 1 + b.uniform(4) {
		at += b.spread(100*time.Microsecond, b.lastTTL)
		if b.chance(2) {
			fault()
		}
		switch b.uniform(5) {
		case 0:
			b.add(Step{At: at, Do: "release", ID: id})
		case 1, 2:
			b.add(Step{At: at, Do: "renew", ID: id})
		case 3:
			b.add(Step{At: at, Do: "cancel", ID: id})
		default:
			id = b.newIDs(1)
			b.add(Step{At: at, Do: "acquire", Locker: number, Name: name, ID: id, TTL: ttl, Wait: Forever})
		}
		if b.chance(2) { // from here on others overtake
			b.add(Step{At: at + b.spread(100*time.Microsecond, b.lastTTL/4), Do: "heal", Locker: number})
		}
	}
	at += b.spread(100*time.Microsecond, b.lastTTL/4)
	b.add(Step{At: at, Do: "heal", Locker: number})
	b.add(Step{At: at, Do: "release", ID: id})
	rival := b.newIDs(2)
	b.add(Step{At: at + b.span(0, 2), Do: "acquire", Locker: b.other(), Name: name, ID: rival, TTL: b.otherTTL(ttl), Wait: Forever})
	b.add(Step{At: at + b.span(0, 2), Do: "acquire", Locker: number, Name: name, ID: rival + 1, TTL: ttl, Wait: Forever})
	for range 1 + b.uniform(3) {
		b.add(Step{At: at + b.span(0, 3), Do: "probe", ID: id})
	}
	b.add(Step{At: at + b.span(0, 3), Do: "release", ID: rival, Count: 2})
}

// leaveTooLate has a caller give up while the grant of its lock is on the way, or lost.
func leaveTooLate(b *builder) {
	ttl := b.newTTL()
	number, name := b.disturbable(), b.plainName()
	at := time.Duration(0)
	for range 1 + b.uniform(3) {
		holder, id := 0, b.newIDs(1)
		if b.chance(2) {
			holder = b.newIDs(1)
			b.add(Step{At: at, Do: "acquire", Locker: b.other(), Name: name, ID: holder, TTL: ttl, Wait: Forever})
			at += b.spread(time.Millisecond, b.lastTTL/2)
			b.add(Step{At: at, Do: "acquire", Locker: number, Name: name, ID: id, TTL: ttl, Wait: Forever})
			at += b.spread(time.Millisecond, b.lastTTL)
		}
		kinds := []Step{{Do: "delay", Back: b.span(0.01, 0.3)}, {Do: "delay", There: b.span(0.01, 0.3)}, {Do: "drop", N: 1 + b.uniform(2)}, {Do: "cut"}, {Do: "sever"}}
		if b.oneWay {
			kinds = append(kinds, Step{Do: "cut-replies"})
		}
		if b.message {
			kinds = append(kinds, Step{Do: "lose-reply", N: 1})
		}
		s := kinds[b.uniform(len(kinds))]
		s.At, s.Locker = at, number
		b.add(s)
		at += b.spread(10*time.Microsecond, b.lastTTL/8)
		if holder > 0 {
			b.add(Step{At: at, Do: "release", ID: holder})
		} else {
			b.add(Step{At: at, Do: "acquire", Locker: number, Name: name, ID: id, TTL: ttl, Wait: Forever})
		}
		at += b.spread(10*time.Microsecond, b.lastTTL/8)
		b.add(Step{At: at, Do: "cancel", ID: id})
		at += b.spread(10*time.Microsecond, b.lastTTL/2)
		b.add(Step{At: at, Do: "heal", Locker: number})
		b.add(Step{At: at + b.span(0, 1), Do: "probe", ID: id})
		at += b.span(0, 2)
		b.add(Step{At: at, Do: "release", ID: id})
	}
}

// storm has faults that overlap, of one Locker's link and of the service, while the lock changes
// hands.
func storm(b *builder) {
	ttl := b.newTTL()
	if b.bubble && b.chance(2) {
		ttl = 20*time.Second + b.span(0, 10) // what is left for a TTL is seen
		b.lastTTL = 2 * time.Second
	}
	number, name := b.disturbable(), b.plainName()
	at := time.Duration(0)
	var ids []int
	down := false
	for range 4 + b.uniform(14) {
		at += b.spread(10*time.Microsecond, b.lastTTL/4)
		switch b.uniform(9) {
		case 0, 1, 2:
			s := Step{At: at, Do: "acquire", Locker: number, Name: name, ID: b.newIDs(1), TTL: ttl, Wait: Forever}
			if b.chance(3) {
				s.Locker = b.other()
			}
			if b.chance(3) {
				s.Wait = b.span(0, 0.5)
			}
			ids = append(ids, s.ID)
			b.add(s)
		case 3, 4:
			if len(ids) > 0 {
				b.add(Step{At: at, Do: []Verb{"release", "release", "cancel", "renew", "remove"}[b.uniform(5)], ID: ids[b.uniform(len(ids))]})
			}
		case 5, 6, 7:
			b.disturbLink(number, at)
		default:
			if down {
				b.add(Step{At: at, Do: "up"})
				b.add(Step{At: at, Do: "resume"})
			} else if len(b.service) > 0 {
				b.add(Step{At: at, Do: b.service[b.uniform(len(b.service))]})
			}
			down = !down
		}
	}
	at += b.spread(10*time.Microsecond, b.lastTTL/4)
	b.add(Step{At: at, Do: "up"})
	b.add(Step{At: at, Do: "resume"})
	b.add(Step{At: at, Do: "heal", Locker: number})
	for range 1 + b.uniform(2) {
		b.add(Step{At: at + b.span(0, 2), Do: "acquire", Locker: b.any(), Name: name, ID: b.newIDs(1), TTL: ttl, Wait: Forever})
	}
	for _, id := range ids {
		if b.chance(2) {
			b.add(Step{At: at + b.span(0, 2), Do: "release", ID: id})
		}
	}
}

// overtaken has a request on its way for so long that its caller gives up, and what the caller sends
// then arrives first. If the request is executed in the end, it must not have an effect: the TTL is
// long, so that an effect is seen.
func overtaken(b *builder) {
	ttl := b.newTTL()
	if b.bubble {
		ttl = b.spread(30*time.Second, 10*time.Minute)
		b.lastTTL = 5 * time.Second
	}
	number, name := b.disturbable(), b.plainName()
	id := b.newIDs(1)
	late := b.spread(b.lastTTL/50, b.lastTTL)
	heal := b.spread(time.Millisecond, min(ttl/6, late))
	s := Step{Do: "acquire", Locker: number, Name: name, ID: id, TTL: ttl}
	at := time.Duration(0)
	what := b.uniform(4)
	if what > 1 { // not the acquisition is late
		b.add(s)
		at = b.spread(time.Millisecond, b.lastTTL)
	}
	b.add(Step{At: at, Do: "delay", Locker: number, There: late})
	switch what {
	case 0:
		b.add(s)
	case 1:
		s.Wait = Forever
		b.add(s)
		b.add(Step{At: heal, Do: "cancel", ID: id})
	case 2:
		b.add(Step{At: at, Do: "renew", ID: id})
		b.add(Step{At: at + heal, Do: "release", ID: id})
	default:
		b.add(Step{At: at, Do: "release", ID: id})
		next := s
		next.At, next.ID, next.Wait = at+heal, b.newIDs(1), Forever
		b.add(next)
	}
	b.add(Step{At: at + heal, Do: "heal", Locker: number})
	b.add(Step{At: at + late + b.spread(time.Millisecond, b.lastTTL), Do: "probe", ID: id})
	b.add(Step{At: at + late + b.between(3*b.lastTTL, 6*b.lastTTL), Do: "probe", ID: id})
}

// downtime has calls of all kinds while the service fails or doesn't answer, and looks at the lock
// as soon as the service is back.
func downtime(b *builder) {
	ttl := b.newTTL()
	number, name := b.any(), b.plainName()
	n := 1 + b.uniform(4)
	ids, waiters := b.newIDs(n), b.newIDs(n)
	b.add(Step{Do: "acquire", Locker: number, Name: name, ID: ids, Count: n, TTL: ttl, Wait: Forever})
	if b.chance(2) {
		b.add(Step{At: time.Millisecond, Do: "acquire", Locker: b.any(), Name: name, ID: waiters, Count: n, TTL: ttl, Wait: Forever})
	}
	from := b.spread(time.Millisecond, b.lastTTL)
	to := b.disturbService(from)
	for range 1 + b.uniform(4) {
		s := Step{At: b.between(from, to), Do: []Verb{"release", "release", "renew", "cancel", "probe"}[b.uniform(5)], ID: ids + b.uniform(2*n)}
		b.add(s)
		b.add(Step{At: to + b.spread(time.Millisecond, b.lastTTL/2), Do: "probe", ID: s.ID})
	}
	b.add(Step{At: to + b.span(0, 2), Do: "release", ID: ids, Count: n})
}
