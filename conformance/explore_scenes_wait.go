package conformance

import "time"

// Scenes with many leases or many waiters.

// crowd has many leases of one Locker, of which one may be taken away.
func crowd(b *builder) {
	ttl := b.newTTL()
	number, name := b.any(), b.plainName()
	most := 300
	if !b.bubble {
		most = 100
	}
	n := 2 + b.uniform(b.uniform(most/3)+1)
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

// longQueue has a waiter in each of many Lockers, so that the service's own queue is long. Some die
// in front of others that live.
func longQueue(b *builder) {
	ttl := b.newTTL()
	name := b.plainName()
	n := 4 + b.uniform(b.uniform(60)+1)
	if b.chance(4) {
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
