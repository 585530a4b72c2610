package kit

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/fencedlock/locker/driver"
)

// ErrNotSent says that a request left its [Group] before it was sent: it can't be carried out any more.
var ErrNotSent = errors.New("request was not sent")

// alone is how many sends of a group go out side by side before requests join. With fewer, requests wait though the
// connections are idle; with more, they rarely join.
const alone = 4

// Group lets requests join under load, for drivers whose client can carry several in one message: a pipeline, or a
// statement over an array. The first few go out at once, each alone. What comes while those are under way joins, evenly,
// in the messages that follow them, and nobody waits on purpose: so a lone request costs what it always did, and many
// cost fewer messages.
//
// A Group starts goroutines only while requests are under way; there is nothing to close.
type Group[Req, Rep any] struct {
	send  func(ctx context.Context, reqs []Req) ([]Rep, error)
	limit time.Duration
	size  int

	mu      sync.Mutex
	sending int // messages under way
	sent    int // requests in those
	waiting []*member[Req, Rep]
}

type member[Req, Rep any] struct {
	req  Req
	rep  Rep
	err  error
	sent bool
	done chan struct{}
}

// NewGroup makes a group. send sends some requests, at most size, in one message, and returns the reply to each, in
// order, or an error for them all; its context is over after limit, and no caller's context reaches it. Replies that
// say "no" are replies, not errors.
func NewGroup[Req, Rep any](send func(ctx context.Context, reqs []Req) ([]Rep, error), limit time.Duration, size int) *Group[Req, Rep] {
	return &Group[Req, Rep]{send: send, limit: limit, size: max(size, 1)}
}

// Do sends req and returns its reply. ctx covers the caller's waiting alone: when it ends before the request was
// sent, the request is withdrawn and the error matches [ErrNotSent]; later, the request goes on, and as after any
// other error nobody knows whether it was carried out, or when; a driver that must know passes a context that doesn't
// end. The other members of a message don't notice.
func (g *Group[Req, Rep]) Do(ctx context.Context, req Req) (Rep, error) {
	var none Rep
	if err := driver.ContextError(ctx); err != nil {
		return none, errors.Join(ErrNotSent, err)
	}
	m := &member[Req, Rep]{req: req, done: make(chan struct{})}
	g.mu.Lock()
	g.waiting = append(g.waiting, m)
	if g.sending < alone {
		g.sending++
		go g.sender(g.next())
	}
	g.mu.Unlock()
	select {
	case <-m.done:
		return m.rep, m.err
	case <-ctx.Done():
	}
	if g.withdraw(m) {
		return none, errors.Join(ErrNotSent, driver.ContextError(ctx))
	}
	select {
	case <-m.done: // a reply that has come all the same is not thrown away
		return m.rep, m.err
	default:
		return none, driver.ContextError(ctx)
	}
}

// sender sends messages until nobody waits.
func (g *Group[Req, Rep]) sender(members []*member[Req, Rep]) {
	for len(members) > 0 {
		g.sendAll(members)
		g.mu.Lock()
		g.sent -= len(members)
		members = g.next()
		if len(members) == 0 {
			g.sending--
		}
		g.mu.Unlock()
	}
}

func (g *Group[Req, Rep]) sendAll(members []*member[Req, Rep]) {
	reqs := make([]Req, len(members))
	for i, m := range members {
		reqs[i] = m.req
	}
	ctx, cancel := context.WithTimeout(context.Background(), g.limit)
	defer cancel()
	reps, err := g.send(ctx, reqs)
	if err == nil && len(reps) != len(reqs) {
		err = errors.New("the number of replies is not that of the requests")
	}
	for i, m := range members {
		if m.err = err; err == nil {
			m.rep = reps[i]
		}
		close(m.done)
	}
}

// next takes the requests of the next message from those that wait: an even share of all, so that the messages under way
// stay about equal. If one took all that wait, the others would carry nothing, and the service would have nothing to do
// while its answer is taken in.
func (g *Group[Req, Rep]) next() []*member[Req, Rep] {
	share := (len(g.waiting) + g.sent + alone - 1) / alone
	n := min(len(g.waiting), g.size, share)
	members := g.waiting[:n:n]
	if g.waiting = g.waiting[n:]; len(g.waiting) == 0 {
		g.waiting = nil // the array goes with its members
	}
	g.sent += n
	for _, m := range members {
		m.sent = true
	}
	return members
}

// withdraw takes back a request that was not sent.
func (g *Group[Req, Rep]) withdraw(m *member[Req, Rep]) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if m.sent {
		return false
	}
	for i, other := range g.waiting {
		if other == m {
			g.waiting = append(g.waiting[:i:i], g.waiting[i+1:]...)
			break
		}
	}
	return true
}
