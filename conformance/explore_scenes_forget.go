package conformance

import "time"

// deadConnections has a network forget its connections, of which there are many, and then calls of any kind, of
// which one finds that out.
func deadConnections(b *builder) {
	ttl := b.newTTL()
	number, name := b.disturbable(), b.plainName()
	n := 1 + b.uniform(12)
	ids := b.newIDs(n)
	b.add(Step{Do: "acquire", Locker: number, Name: name, ID: ids, Count: n, TTL: ttl, Wait: Forever})
	waiter := b.newIDs(1)
	at := b.span(0, 1)
	if b.chance(2) { // the name of the first of them
		s := Step{At: at, Do: "acquire", Locker: b.any(), Name: name, ID: waiter, Count: 1, Wait: Forever}
		s.TTL = b.otherTTL(ttl)
		b.add(s)
	}
	at += b.spread(time.Millisecond, b.lastTTL)
	b.add(Step{At: at, Do: "forget", Locker: number})
	heal := at + b.spread(time.Millisecond, b.faultLimit())
	for range 1 + b.uniform(4) {
		s := Step{At: b.between(at, heal), ID: ids + b.uniform(n+1), Locker: number}
		switch b.uniform(8) {
		case 0, 1, 2:
			s.Do = "release"
		case 3, 4:
			s.Do = "renew"
		case 5:
			s.Do = "cancel"
		case 6:
			s.Do, s.ID, s.TTL, s.Wait = "acquire", b.newIDs(1), ttl, Forever
			s.Name = b.plainName()
		default:
			s.Do = "close"
		}
		b.add(s)
		b.add(Step{At: s.At + b.span(0, 2), Do: "probe", ID: s.ID})
	}
	b.add(Step{At: heal, Do: "heal", Locker: number})
	b.add(Step{At: heal + b.span(0, 2), Do: "probe", ID: ids, Count: n})
	b.add(Step{At: heal + b.span(0, 2), Do: "release", ID: ids, Count: n})
}
