package conformance

import (
	"math"
	"math/bits"
	"time"

	"pgregory.net/rapid"

	"github.com/fencedlock/locker"
)

// traits are what programs may make use of: what the harness can do, and what the backend promises.
type traits struct {
	g         locker.Guarantees
	ttl       time.Duration // the harness's; 0: leases have none
	slack     time.Duration
	bubble    bool // waiting takes no time
	linked    bool
	oneWay    bool
	message   bool
	forgetful bool
	service   []Verb // faults of the service
	remove    bool
	prefixed  bool
}

func traitsOf(t T, h *Harness, g locker.Guarantees) traits {
	tr := traits{g: g, ttl: h.TTL, slack: h.Slack, bubble: inBubble(), remove: h.Remove != nil, prefixed: h.Prefixed != nil}
	if h.Linked != nil {
		l, link := h.Linked(t)
		tr.linked = true
		_, tr.oneWay = link.(OneWayLink)
		_, tr.message = link.(MessageLink)
		tr.forgetful = h.forgets(link) != nil
		_ = l.Close()
	}
	for _, s := range []struct {
		kind Verb
		has  bool
	}{
		{"pause", h.lack(HookPause) == ""}, {"down", h.lack(HookDown) == ""}, {"restart", h.Restart != nil},
		{"wipe", h.Wipe != nil}, {"failover", h.Failover != nil},
	} {
		if s.has {
			tr.service = append(tr.service, s.kind)
		}
	}
	return tr
}

// inBubble reports whether the caller is in a bubble of testing/synctest, where waiting takes no
// time: the clock of a bubble begins at midnight UTC 2000-01-01.
func inBubble() bool { return time.Now().UTC().Year() == 2000 }

// programs makes random programs: one to three scenes that share some Lockers.
func (tr traits) programs() *rapid.Generator[Program] {
	return rapid.Custom(func(rt *rapid.T) Program {
		b := &builder{rt: rt, traits: tr}
		b.p.Lockers = []Opening{{Linked: tr.linked}, {Linked: tr.linked}, {}, {}}
		scenes := tr.scenes()
		for range 1 + b.uniform(3) {
			if len(b.p.Steps) > 0 {
				b.offset = b.spread(time.Millisecond, 2*b.lastTTL+10*time.Millisecond)
			}
			if !b.alone {
				scenes[b.uniform(len(scenes))](b)
			}
		}
		if b.chance(8) {
			b.onSlots()
		}
		return b.p.trimmed()
	})
}

// onSlots makes a program of locks one of slots: of one slot, or of two in turn.
func (b *builder) onSlots() {
	slots := []int{1, 1 + b.uniform(2)}
	for i := range b.p.Lockers {
		if b.p.Lockers[i].Prefix == "" {
			b.p.Lockers[i].Slot = slots[i%2]
		}
	}
}

// builder makes one program.
type builder struct {
	traits
	rt      *rapid.T
	p       Program
	offset  time.Duration // of the scene
	ids     int
	lastTTL time.Duration

	firstTTL time.Duration
	alone    bool // there must be no other scene
}

// uniform is a random number below n. The numbers of package rapid are mostly small; the bits of
// this one are drawn one by one, and it becomes smaller when one of them becomes zero.
func (b *builder) uniform(n int) int {
	if n <= 1 {
		return 0
	}
	value := 0
	for range bits.Len(uint(n-1)) + 2 {
		value <<= 1
		if rapid.Bool().Draw(b.rt, "bit") {
			value++
		}
	}
	return value * n >> (bits.Len(uint(n-1)) + 2)
}

// chance is true in one of n cases.
func (b *builder) chance(n int) bool { return b.uniform(n) == n-1 }

// spread is a random time, such that each order of magnitude is as likely as another.
func (b *builder) spread(least, most time.Duration) time.Duration {
	const steps = 64
	share := float64(b.uniform(steps+1)) / steps
	d := time.Duration(float64(least) * math.Pow(float64(most)/float64(least), share))
	return max(d.Truncate(100*time.Microsecond), least)
}

// between is a random time.
func (b *builder) between(least, most time.Duration) time.Duration {
	const steps = 256
	return (least + (most-least)/steps*time.Duration(b.uniform(steps+1))).Truncate(10 * time.Microsecond)
}

// add adds a step of the scene, or leaves it out. That is how programs are shortened.
func (b *builder) add(s Step) {
	keep := false
	for range 5 {
		keep = rapid.Bool().Draw(b.rt, "keep") || keep
	}
	s.At += b.offset
	if s.Do == "release" {
		s.Over = b.chance(6)
	}
	if keep {
		b.p.Steps = append(b.p.Steps, s)
	}
}

// newIDs returns the first of n IDs.
func (b *builder) newIDs(n int) int {
	b.ids += n
	return b.ids - n + 1
}

// newName adds a name.
func (b *builder) newName(text string) int {
	b.p.Names = append(b.p.Names, text)
	return len(b.p.Names) - 1
}

var letters = []string{"a", "b", "c", "d", "e", "f", "g", "h"}

// plainName is a name without special characters.
func (b *builder) plainName() int { return b.newName("-" + letters[len(b.p.Names)%len(letters)]) }

// disturbable is a Locker with a link, where there are links.
func (b *builder) disturbable() int { return b.uniform(2) }

// other is a Locker that no link disturbs.
func (b *builder) other() int { return 2 + b.uniform(2) }

// any is any Locker.
func (b *builder) any() int { return b.uniform(4) }

// newTTL is a TTL. In bubbles it is anything between a tenth of a second and ten minutes.
func (b *builder) newTTL() time.Duration {
	switch {
	case b.ttl == 0:
		b.lastTTL = 400 * time.Millisecond // only the measure of the scene
		return 0
	case !b.bubble:
		b.lastTTL = b.between(b.ttl, 3*b.ttl).Truncate(time.Millisecond) + time.Millisecond
	case b.chance(3):
		longest := 10 * time.Minute
		if b.g.Waiting < locker.WaitingNotify {
			longest = 30 * time.Second // polling for longer finds nothing more
		}
		b.lastTTL = b.spread(100*time.Millisecond, longest).Truncate(time.Millisecond)
	default:
		b.lastTTL = b.between(b.ttl/2, 4*b.ttl).Truncate(time.Millisecond)
	}
	if b.firstTTL == 0 {
		b.firstTTL = b.lastTTL
	}
	// Somebody with a short TTL must not have to wait for somebody with a very long one: that is
	// many renewals.
	b.lastTTL = min(max(b.lastTTL, b.firstTTL/8), 8*b.firstTTL)
	return b.lastTTL
}

// span is the time for which the scene's TTL counts.
func (b *builder) span(least, most float64) time.Duration {
	return b.between(time.Duration(least*float64(b.lastTTL)), time.Duration(most*float64(b.lastTTL)))
}

// disturb adds a fault of the Locker's link or of the service, from at on, and its end. It returns
// when it has ended.
func (b *builder) disturb(number int, at time.Duration) time.Duration {
	if len(b.service) > 0 && (!b.linked || b.chance(3)) {
		return b.disturbService(at)
	}
	if !b.linked {
		return at
	}
	end := at + b.spread(b.lastTTL/20+time.Millisecond, b.faultLimit())
	b.disturbLink(number, at)
	b.add(Step{At: end, Do: "heal", Locker: number})
	return end
}

// disturbService adds a fault of the service from at on, and its end. It returns when it has ended.
func (b *builder) disturbService(at time.Duration) time.Duration {
	kind := b.service[b.uniform(len(b.service))]
	b.add(Step{At: at, Do: kind})
	for over, begun := range ends {
		if begun == kind {
			at += b.spread(b.lastTTL/20+time.Millisecond, b.faultLimit())
			b.add(Step{At: at, Do: over})
		}
	}
	return at
}

// faultLimit is the longest fault.
func (b *builder) faultLimit() time.Duration {
	if b.bubble {
		return 3 * b.lastTTL
	}
	return 3 * b.lastTTL / 2
}

// disturbLink adds a fault of a link.
func (b *builder) disturbLink(number int, at time.Duration) {
	kinds := []Verb{"cut", "cut", "sever", "drop", "delay"}
	if b.oneWay {
		kinds = append(kinds, "cut-requests", "cut-replies")
	}
	if b.message {
		kinds = append(kinds, "lose-request", "lose-reply", "delay-request", "repeat-request")
	}
	if b.forgetful {
		kinds = append(kinds, "forget")
	}
	s := Step{At: at, Do: kinds[b.uniform(len(kinds))], Locker: number}
	switch s.Do {
	case "drop":
		s.N = 1 + b.uniform(4)
	case "lose-request", "lose-reply":
		s.N = 1 + b.uniform(5)
	case "delay-request", "repeat-request":
		s.N, s.There = 1+b.uniform(5), b.spread(time.Millisecond, 2*b.lastTTL)
	case "delay":
		s.There, s.Back = b.span(0, 0.3), b.span(0, 0.3)
		if b.chance(2) {
			s.There, s.Back = 0, b.span(0.01, 0.12)
		}
	}
	b.add(s)
}
