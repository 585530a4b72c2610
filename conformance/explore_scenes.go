package conformance

import "time"

// A scene is a part of a program that is aimed at one kind of defect. All its numbers are random.
type scene func(b *builder)

func (tr traits) scenes() []scene {
	scenes := []scene{heldThroughFault, heldThroughFault, crowd, queue, races, races, manyWaits, closing, confusable, shortOfTTL, tokensInTurn, mixture}
	if tr.bubble {
		scenes = append(scenes, longQueue, longQueue)
	}
	if tr.bubble && tr.ttl > 0 {
		scenes = append(scenes, hugeTTL)
	}
	if tr.linked {
		scenes = append(scenes, lateMessages, lateMessages, leaveTooLate, storm, storm)
	}
	if tr.linked && tr.ttl > 0 {
		scenes = append(scenes, overtaken, overtaken)
	}
	if len(tr.service) > 0 {
		scenes = append(scenes, downtime)
	}
	if tr.ttl > 0 {
		scenes = append(scenes, deadHolder, deadHolder, longHold)
	}
	if tr.remove {
		scenes = append(scenes, removal)
	}
	if tr.prefixed {
		scenes = append(scenes, prefixPairs)
	}
	return scenes
}

// options are random options of an acquisition.
func (b *builder) options(s Step) Step {
	if b.chance(6) {
		s.MaxHold = b.span(0.2, 3)
	}
	if b.ttl > 0 && b.chance(5) {
		s.NoRenewal = true
	}
	return s
}

// hold adds a holder from at on, which has the lock at once or after a wait. It returns its ID and
// from when on it should have the lock.
func (b *builder) hold(number, name int, at time.Duration, s Step) (id int, from time.Duration) {
	s.At, s.Do, s.Locker, s.Name, s.Wait = at, "acquire", number, name, Forever
	s.ID = b.newIDs(1)
	if b.chance(2) {
		b.add(s)
		return s.ID, at
	}
	before := b.newIDs(1)
	b.add(Step{At: at, Do: "acquire", Locker: b.other(), Name: name, ID: before, TTL: s.TTL, Wait: Forever})
	s.At += b.spread(time.Millisecond, b.lastTTL/2)
	b.add(s)
	from = s.At + b.spread(time.Millisecond, 3*b.lastTTL)
	b.add(Step{At: from, Do: "release", ID: before})
	return s.ID, from
}

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

// otherTTL is the TTL of somebody else who asks for the same lock.
func (b *builder) otherTTL(ttl time.Duration) time.Duration {
	if ttl == 0 || b.chance(2) {
		return ttl
	}
	if b.chance(2) {
		return ttl + b.span(0.1, 3)
	}
	return max(ttl/4, min(ttl, 100*time.Millisecond), b.ttl*time.Duration(b2i(!b.bubble)))
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// during adds what others ask while somebody holds a lock.
func (b *builder) during(id, name int, from, to time.Duration) {
	for range b.uniform(5) {
		at := b.between(from, to)
		switch b.uniform(7) {
		case 0, 1:
			b.add(Step{At: at, Do: "probe", ID: id})
		case 4:
			b.add(Step{At: at, Do: "nest", ID: id})
		case 5:
			b.add(Step{At: at, Do: "acquire", Locker: b.any(), Name: name, ID: b.newIDs(1), TTL: b.otherTTL(b.p.ttlOf(id)), Wait: b.span(0.05, 2)})
		case 2:
			b.add(Step{At: at, Do: "read", Locker: b.any(), Name: name})
		case 3:
			b.add(Step{At: at, Do: "renew", ID: id})
		default:
			b.add(Step{At: at, Do: "acquire", Locker: b.any(), Name: name, ID: b.newIDs(1), TTL: b.otherTTL(b.p.ttlOf(id))})
		}
	}
}

// ttlOf is the TTL of an acquisition.
func (p Program) ttlOf(id int) time.Duration {
	for _, s := range p.Steps {
		if s.Do == "acquire" && s.ID <= id && id < s.ID+s.count() {
			return s.TTL
		}
	}
	return 0
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

// crowd has many leases of one Locker, of which one may be taken away.
func crowd(b *builder) {
	ttl := b.newTTL()
	number, name := b.any(), b.plainName()
	most := 300
	if !b.bubble {
		most = 100
	}
	n := 2 + b.uniform(b.uniform(most)+1)
	if b.chance(4) {
		n = most - b.uniform(most/5)
	}
	pending := b.newIDs(2)
	if b.chance(2) { // a wait that goes on meanwhile
		other := b.plainName()
		b.add(Step{Do: "acquire", Locker: b.other(), Name: other, ID: pending, TTL: ttl})
		b.add(Step{At: time.Millisecond, Do: "acquire", Locker: number, Name: other, ID: pending + 1, TTL: ttl, Wait: Forever})
		b.add(Step{At: b.span(0.1, 4), Do: "release", ID: pending})
	}
	id := b.newIDs(n)
	s := Step{At: 2 * time.Millisecond, Do: "acquire", Locker: number, Name: name, ID: id, Count: n, TTL: ttl}
	if b.chance(2) {
		s.Wait = Forever
	}
	b.add(s)
	until := b.span(0.5, 4)
	for range b.uniform(4) {
		at := b.between(0, until)
		one := id + b.uniform(n)
		switch b.uniform(5) {
		case 0:
			if b.remove {
				b.add(Step{At: at, Do: "remove", ID: one})
			}
		case 1:
			b.add(Step{At: at, Do: "release", ID: one})
		case 2:
			b.add(Step{At: at, Do: "renew", ID: one, Count: min(n-(one-id), 1+b.uniform(20))})
		case 3:
			b.disturb(number, at)
		default:
			other := b.newTTL()
			b.add(Step{At: at, Do: "acquire", Locker: number, Name: b.plainName(), ID: b.newIDs(20), Count: 1 + b.uniform(20), TTL: other})
		}
	}
	b.add(Step{At: b.between(0, until), Do: []Verb{"read", "acquire"}[b.uniform(2)], Locker: b.any(), Name: name, ID: b.newIDs(1)}) // begins all names, and is free
	b.add(Step{At: b.between(0, until), Do: "probe", ID: id, Count: n})
	b.add(Step{At: until, Do: "probe", ID: id, Count: n})
	if b.chance(2) {
		b.add(Step{At: until + b.span(0, 1), Do: "release", ID: id, Count: n})
	}
}

// queue has many waiters for one lock, from several Lockers. Some give up, and the lock goes on.
func queue(b *builder) {
	ttl := b.newTTL()
	name := b.plainName()
	holder := b.newIDs(1)
	b.add(Step{Do: "acquire", Locker: b.any(), Name: name, ID: holder, TTL: ttl, Wait: Forever})
	most := 200
	if !b.bubble {
		most = 40
	}
	left := 1 + b.uniform(b.uniform(most)+1)
	at := b.spread(time.Millisecond, b.lastTTL)
	first := b.ids + 1
	for left > 0 {
		n := 1 + b.uniform(left)
		left -= n
		wait := Forever
		if b.chance(4) {
			wait = b.span(0.01, 4)
		}
		b.add(Step{At: at, Do: "acquire", Locker: b.any(), Name: name, ID: b.newIDs(n), Count: n, Same: true, TTL: b.otherTTL(ttl), Wait: wait})
		at += b.spread(time.Millisecond, b.lastTTL)
	}
	for range b.uniform(6) {
		one := first + b.uniform(b.ids-first+1)
		b.add(Step{At: b.between(0, 2*at), Do: "cancel", ID: one, Count: 1 + b.uniform(min(b.ids-one+1, 10))})
	}
	if b.chance(4) {
		b.disturb(b.disturbable(), b.between(0, at))
	}
	b.add(Step{At: at, Do: "release", ID: holder})
	for range b.uniform(6) { // those that have the lock by then pass it on
		at += b.spread(time.Millisecond, b.lastTTL)
		b.add(Step{At: at, Do: "release", ID: first, Count: b.ids - first + 1})
	}
}

// races has several things happen at the same moment, several times.
func races(b *builder) {
	ttl := b.newTTL()
	name := b.plainName()
	at := time.Duration(0)
	for range 1 + b.uniform(16) {
		holder, waiter, third := b.newIDs(1), b.newIDs(1), b.newIDs(1)
		first, second := b.any(), b.any()
		b.add(Step{At: at, Do: "acquire", Locker: first, Name: name, ID: holder, TTL: ttl, Wait: Forever})
		at += b.spread(100*time.Microsecond, b.lastTTL/2)
		b.add(Step{At: at, Do: "acquire", Locker: second, Name: name, ID: waiter, TTL: ttl, Wait: Forever})
		if b.chance(2) {
			b.add(Step{At: at, Do: "acquire", Locker: b.any(), Name: name, ID: third, TTL: ttl, Wait: Forever})
		}
		at += b.spread(100*time.Microsecond, b.lastTTL/2)
		if b.chance(2) {
			b.add(Step{At: at, Do: "cancel", ID: waiter})
		}
		for range b.uniform(3) {
			do := []Step{{Do: "release", ID: holder}, {Do: "cancel", ID: waiter}, {Do: "renew", ID: holder}, {Do: "cancel", ID: third},
				{Do: "probe", ID: holder}, {Do: "read", Locker: second, Name: name}}[b.uniform(6)]
			do.At = at
			b.add(do)
		}
		b.add(Step{At: at, Do: "release", ID: holder})
		at += b.spread(100*time.Microsecond, b.lastTTL/2)
		b.add(Step{At: at, Do: "release", ID: waiter})
		b.add(Step{At: at, Do: "release", ID: third})
		b.add(Step{At: at, Do: "cancel", ID: third})
	}
}

// manyWaits has one Locker wait for several names while its link fails.
func manyWaits(b *builder) {
	ttl := b.newTTL()
	number := b.disturbable()
	n := 2 + b.uniform(8)
	name := b.plainName()
	holders, waiters := b.newIDs(n), b.newIDs(n)
	b.add(Step{Do: "acquire", Locker: b.other(), Name: name, ID: holders, Count: n, TTL: ttl, Wait: Forever})
	at := b.spread(time.Millisecond, b.lastTTL/2)
	b.add(Step{At: at, Do: "acquire", Locker: number, Name: name, ID: waiters, Count: n, TTL: ttl, Wait: Forever})
	at += b.span(0, 1)
	if b.chance(2) {
		b.add(Step{At: at, Do: "cancel", ID: waiters + b.uniform(n)})
	}
	if b.linked {
		if b.chance(2) {
			b.add(Step{At: at, Do: "sever", Locker: number})
			b.add(Step{At: at + b.span(0, 0.5), Do: "heal", Locker: number})
		} else {
			at = b.disturb(number, at)
		}
	}
	at += b.span(0, 2)
	b.add(Step{At: at, Do: "release", ID: holders, Count: 1 + b.uniform(n)})
	b.add(Step{At: at + b.span(0, 2), Do: "release", ID: holders, Count: n})
	b.add(Step{At: at + b.span(1, 3), Do: "probe", ID: holders, Count: n})
}

// closing closes a Locker that has leases and waiters.
func closing(b *builder) {
	ttl := b.newTTL()
	number, name, other := b.any(), b.plainName(), b.plainName()
	n := 1 + b.uniform(5)
	mine, theirs, waiters := b.newIDs(n), b.newIDs(n), b.newIDs(n)
	b.add(Step{Do: "acquire", Locker: number, Name: name, ID: mine, Count: n, TTL: ttl, Wait: Forever})
	b.add(Step{Do: "acquire", Locker: (number + 1) % 4, Name: other, ID: theirs, Count: n, TTL: ttl, Wait: Forever})
	at := b.spread(time.Millisecond, b.lastTTL)
	b.add(Step{At: at, Do: "acquire", Locker: number, Name: other, ID: waiters, Count: n, TTL: ttl, Wait: Forever})
	b.add(Step{At: at, Do: "acquire", Locker: (number + 2) % 4, Name: name, ID: b.newIDs(n), Count: n, TTL: ttl, Wait: Forever})
	at += b.spread(time.Millisecond, b.lastTTL)
	if b.chance(4) {
		b.disturb(number, at)
		at += b.span(0, 1)
	}
	b.add(Step{At: at, Do: "close", Locker: number})
	if b.chance(2) {
		b.add(Step{At: at, Do: "release", ID: mine + b.uniform(n)})
	}
	b.add(Step{At: at + b.span(0, 0.5), Do: "release", ID: theirs, Count: n})
	b.add(Step{At: at + b.span(0, 2), Do: "probe", ID: mine, Count: n})
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
	if b.linked && b.chance(3) { // the notice is late
		b.add(Step{At: at, Do: "delay", Locker: number, Back: b.span(0.01, 0.12)})
		b.add(Step{At: at + b.span(0.001, 0.1), Do: "acquire", Locker: number, Name: name, ID: b.newIDs(1), TTL: ttl, Wait: Forever})
		b.add(Step{At: at + b.span(0.1, 1), Do: "heal", Locker: number})
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

// mixture is operations without a plan.
func mixture(b *builder) {
	ttl := b.newTTL()
	names := []int{b.plainName(), b.plainName()}
	first := b.ids + 1
	at := time.Duration(0)
	for range 3 + b.uniform(25) {
		at += b.spread(10*time.Microsecond, b.lastTTL)
		s := Step{At: at, Locker: b.any(), Name: names[b.uniform(2)], ID: first + b.uniform(b.ids-first+2)}
		switch b.uniform(12) {
		case 10:
			s.Do, s.N = "invalid", b.uniform(8)
		case 11:
			s.Do = "nest"
		case 0, 1, 2, 3:
			s.Do, s.ID, s.TTL = "acquire", b.newIDs(1), b.otherTTL(ttl)
			if !b.chance(3) {
				s.Wait = Forever
			}
			if b.chance(5) {
				s.Wait = b.span(0.1, 3)
			}
			s = b.options(s)
			s.Over = b.chance(10)
		case 4, 5:
			s.Do = "release"
		case 6:
			s.Do = "renew"
		case 7:
			s.Do = "cancel"
		case 8:
			b.disturb(b.disturbable(), at)
			continue
		default:
			s.Do = []Verb{"probe", "read"}[b.uniform(2)]
		}
		b.add(s)
	}
}

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

// longQueue has a waiter in each of many Lockers, so that the service's own queue is long. Some die
// in front of others that live.
func longQueue(b *builder) {
	ttl := b.newTTL()
	name := b.plainName()
	n := 4 + b.uniform(b.uniform(130)+1)
	if b.chance(3) {
		n = 100 + b.uniform(40)
	}
	first := len(b.p.Lockers)
	for range n {
		b.p.Lockers = append(b.p.Lockers, Opening{})
	}
	holder := b.newIDs(1)
	b.add(Step{Do: "acquire", Locker: b.other(), Name: name, ID: holder, TTL: ttl})
	at := b.spread(time.Millisecond, b.lastTTL)
	last := len(b.p.Lockers)
	if b.linked && b.chance(2) {
		for range 1 + b.uniform(4) {
			b.p.Lockers = append(b.p.Lockers, Opening{Linked: true})
			b.add(Step{At: at, Do: "acquire", Locker: len(b.p.Lockers) - 1, Name: name, ID: b.newIDs(1), TTL: ttl, Wait: Forever})
		}
		at += b.spread(time.Millisecond, b.lastTTL)
	}
	for number := last; number < len(b.p.Lockers); number++ {
		b.add(Step{At: at, Do: "cut", Locker: number})
	}
	cut, waiters := at, b.newIDs(n)
	pause := b.between(0, 2*b.slack+200*time.Millisecond)
	groups := 1 + b.uniform(6)
	for i := range groups { // one after the other, or all at once
		begin, end := i*n/groups, (i+1)*n/groups
		b.add(Step{At: at, Do: "acquire", Locker: first + begin, Name: name, ID: waiters + begin, Count: end - begin, Same: true, Spread: end - begin, TTL: ttl, Wait: Forever})
		at += pause
	}
	if b.chance(2) {
		b.add(Step{At: at, Do: "cancel", ID: waiters + b.uniform(n), Count: 1 + b.uniform(3)})
	}
	at = max(at, cut+b.span(0, 1.2))
	b.add(Step{At: at, Do: "release", ID: holder})
	b.add(Step{At: at + b.span(0, 2), Do: "release", ID: waiters, Count: n})
	b.add(Step{At: at + b.span(2, 5), Do: "probe", ID: holder})
	for number := last; number < len(b.p.Lockers); number++ {
		b.add(Step{At: at + b.span(3, 6), Do: "heal", Locker: number})
	}
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
