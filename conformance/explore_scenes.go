package conformance

import "time"

// A scene is a part of a program that is aimed at one kind of defect. All its numbers are random.
type scene func(b *builder)

// scenes are those that the harness allows, the more important ones several times.
func (tr traits) scenes() (scenes []scene) {
	for _, kind := range []struct {
		times   int
		allowed bool
		scene   scene
	}{
		{3, true, heldThroughFault},
		{4, tr.ttl > 0, deadHolder},
		{1, tr.ttl > 0, longHold},
		{1, tr.ttl > 0 && tr.bubble, hugeTTL},
		{1, true, shortOfTTL},
		{1, true, tokensInTurn},
		{2, tr.remove, removal},

		{1, true, crowd},
		{1, true, queue},
		{1, tr.bubble, longQueue},
		{2, true, manyWaits},
		{2, true, races},
		{1, true, closing},

		{2, true, confusable},
		{1, tr.prefixed, prefixPairs},

		{2, tr.linked, lateMessages},
		{1, tr.linked, leaveTooLate},
		{2, tr.linked && tr.ttl > 0, overtaken},
		{2, tr.linked, storm},
		{1, len(tr.service) > 0, downtime},
		{2, true, mixture},

		{2, tr.message, arrivesTwice},
		{2, tr.linked && tr.ttl > 0, doubtfulStart},
		{2, tr.linked, brokenOff},
		{1, len(tr.service) > 0, justAnswered},
		{2, tr.linked && tr.ttl > 0, slowStart},
		{2, tr.linked && tr.ttl > 0, missedGrant},
		{2, tr.forgetful, deadConnections},
	} {
		for range kind.times {
			if kind.allowed {
				scenes = append(scenes, kind.scene)
			}
		}
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

// longestTTLs is how many times as long as the harness' TTL one on a real service is at most. A service may
// take no longer ones.
const longestTTLs = 8

// otherTTL is the TTL of somebody else who asks for the same lock.
func (b *builder) otherTTL(ttl time.Duration) time.Duration {
	if ttl == 0 || b.chance(2) {
		return ttl
	}
	if b.chance(2) {
		ttl += b.span(0.1, 3)
		if !b.bubble {
			ttl = min(ttl, longestTTLs*b.ttl)
		}
		return ttl
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
