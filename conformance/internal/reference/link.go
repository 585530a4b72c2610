package reference

import (
	"sync"
	"time"

	"github.com/fencedlock/locker/conformance"
)

// Link is the network between the service and one client. A message arrives once, late, twice, or
// not at all; the order of messages may change. The zero Link has no faults.
type Link struct {
	mu          sync.Mutex
	cutRequests bool
	cutReplies  bool
	there, back time.Duration
	drops       int              // replies to lose
	sent        int              // requests so far
	plans       map[int][]change // for requests to come, by their number
	clients     []*client
}

var (
	_ conformance.Link        = (*Link)(nil)
	_ conformance.OneWayLink  = (*Link)(nil)
	_ conformance.MessageLink = (*Link)(nil)
)

// passage is what the network does with one request.
type passage struct {
	lost        bool
	there, back time.Duration
	replyLost   bool
	again       bool // it arrives a second time, and that reply is lost
	after       time.Duration
	copied      bool // this is the second time: some machine on the way sends it, on its own connection
}

type change func(*passage)

// Cut loses everything in both directions. Neither side notices.
func (l *Link) Cut() { l.set(func() { l.cutRequests, l.cutReplies = true, true }) }

// CutRequests loses everything from the client to the service.
func (l *Link) CutRequests() { l.set(func() { l.cutRequests = true }) }

// CutReplies loses everything from the service to the client.
func (l *Link) CutReplies() { l.set(func() { l.cutReplies = true }) }

// Drop loses the next n replies. A notice counts as a reply.
func (l *Link) Drop(n int) { l.set(func() { l.drops = n }) }

// Delay makes requests and replies late.
func (l *Link) Delay(there, back time.Duration) { l.set(func() { l.there, l.back = there, back }) }

// LoseRequest loses the nth request from now on.
func (l *Link) LoseRequest(n int) { l.plan(n, func(p *passage) { p.lost = true }) }

// LoseReply loses the reply to the nth request from now on.
func (l *Link) LoseReply(n int) { l.plan(n, func(p *passage) { p.replyLost = true }) }

// RepeatRequest makes the nth request from now on arrive twice.
func (l *Link) RepeatRequest(n int, after time.Duration) {
	l.plan(n, func(p *passage) { p.again, p.after = true, after })
}

// DelayRequest makes the nth request from now on late.
func (l *Link) DelayRequest(n int, late time.Duration) {
	l.plan(n, func(p *passage) { p.there += late })
}

// Heal ends everything that has not happened yet.
func (l *Link) Heal() {
	l.set(func() {
		l.cutRequests, l.cutReplies, l.there, l.back, l.drops, l.plans = false, false, 0, 0, 0, nil
	})
}

// Sever breaks the connections, and both ends notice.
func (l *Link) Sever() {
	l.mu.Lock()
	clients := l.clients
	l.mu.Unlock()
	for _, c := range clients {
		if broken := c.connection(); broken != nil {
			c.service.locked(func() { c.service.steps.hangUp(c.service, broken) })
			c.reset(broken)
		}
	}
}

func (l *Link) plan(n int, ch change) {
	l.set(func() {
		if l.plans == nil {
			l.plans = make(map[int][]change)
		}
		l.plans[l.sent+n] = append(l.plans[l.sent+n], ch)
	})
}

func (l *Link) set(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f()
}

// send brings a request to the service.
func (l *Link) send(arrive func(passage)) {
	l.mu.Lock()
	l.sent++
	p := passage{lost: l.cutRequests, there: l.there, back: l.back}
	for _, change := range l.plans[l.sent] {
		change(&p)
	}
	delete(l.plans, l.sent)
	l.mu.Unlock()
	if p.lost {
		return
	}
	onArrival := func(p passage) func() {
		return func() {
			if !l.is(&l.cutRequests) {
				arrive(p)
			}
		}
	}
	after(p.there, onArrival(p))
	if p.again {
		second := p
		second.replyLost, second.copied = true, true
		after(p.there+p.after, onArrival(second))
	}
}

// reply brings the reply of a request to the client. It is called under the service's mutex.
func (l *Link) reply(p passage, arrive func()) {
	l.mu.Lock()
	lost := p.replyLost || l.cutReplies
	if !lost && l.drops > 0 {
		l.drops--
		lost = true
	}
	l.mu.Unlock()
	if lost {
		return
	}
	after(p.back, func() {
		if !l.is(&l.cutReplies) {
			arrive()
		}
	})
}

// push brings a notice to the client.
func (l *Link) push(arrive func()) {
	l.mu.Lock()
	back := l.back
	l.mu.Unlock()
	l.reply(passage{back: back}, arrive)
}

// open reports whether the end of a connection is noticed on both sides.
func (l *Link) open() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.cutRequests && !l.cutReplies
}

func (l *Link) is(field *bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return *field
}

func after(d time.Duration, f func()) {
	if d <= 0 {
		f()
		return
	}
	time.AfterFunc(d, f)
}
