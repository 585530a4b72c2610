package kit

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/fencedlock/locker/driver"
)

// ErrNotSent says that a request left its [Lanes] before it was sent: it can't be executed any more.
var ErrNotSent = errors.New("request was not sent")

// defaultWidth is how many messages go out at the same time where the round trip is short. With
// fewer, requests wait though the connections are idle. With more, they rarely join.
const defaultWidth = 4

// Lanes let requests join under load, for drivers whose client can carry several requests in one
// message: a pipeline, or a statement over an array. A request that finds a free lane goes out at
// once, and alone. Only when all lanes are busy do requests wait, and the lane that becomes free
// takes an even share of them as its next message. Nobody waits on purpose: a lone request costs
// what it always did, and many requests cost fewer messages.
//
// Lanes start goroutines only while requests are under way; there is nothing to close.
type Lanes[Req, Rep any] struct {
	send func(ctx context.Context, reqs []Req) ([]Rep, error)
	o    LaneOptions

	mu      sync.Mutex
	width   width
	sending int // messages under way
	sent    int // requests in those
	waiting []*member[Req, Rep]
}

// LaneOptions say how requests travel in [Lanes].
type LaneOptions struct {
	Width int           // messages under way at the same time; 0: 4
	Size  int           // requests in one message, at most; 0: 1
	Limit time.Duration // the time of one message and its answer; 0: send sets its own

	// MaxWidth is the most messages that the client can have under way, such as the size of its
	// pool. Where the round trip is long, there are more lanes than Width, up to this. 0: Width.
	MaxWidth int

	// CallersSend sends a request that finds a free lane on its caller's goroutine, which saves the
	// way to another one. Its message has the caller's context, within Limit, so send must return
	// when that context ends. Messages with several requests have a context of their own.
	CallersSend bool
}

// member is a request and what becomes of it.
type member[Req, Rep any] struct {
	ctx  context.Context //nolint:containedctx // of its caller
	req  Req
	rep  Rep
	err  error
	sent bool
	done chan struct{}
}

// NewLanes makes lanes. send sends some requests, at most o.Size, in one message, and returns the
// reply to each, in order, or an error for them all. Its context ends after o.Limit, and not with a
// caller's unless o.CallersSend is set. For one request it has the values of its caller's. Replies
// that say "no" are replies, not errors.
func NewLanes[Req, Rep any](send func(ctx context.Context, reqs []Req) ([]Rep, error), o LaneOptions) *Lanes[Req, Rep] {
	if o.Width <= 0 {
		o.Width = defaultWidth
	}
	o.Size = max(o.Size, 1)
	return &Lanes[Req, Rep]{send: send, o: o, width: newWidth(o.Width, o.MaxWidth)}
}

// Do sends req and returns its reply. ctx covers the caller's waiting. When it ends before the
// request was sent, the request is withdrawn and the error matches [ErrNotSent]. When it ends
// later, the request goes on, and as after any other error nobody knows whether it was executed, or
// when. A driver that must know passes a context that doesn't end. The end of ctx has no effect on
// the other requests of the message.
func (l *Lanes[Req, Rep]) Do(ctx context.Context, req Req) (Rep, error) {
	var none Rep
	if err := driver.ContextError(ctx); err != nil {
		return none, errors.Join(ErrNotSent, err)
	}
	l.mu.Lock()
	free := l.sending < l.width.lanes // then nobody waits
	if free {
		l.sending++
		l.sent++
	}
	if free && l.o.CallersSend {
		l.mu.Unlock()
		return l.sendAlone(ctx, req)
	}
	m := &member[Req, Rep]{ctx: ctx, req: req, sent: free, done: make(chan struct{})}
	if free {
		go l.serve([]*member[Req, Rep]{m})
	} else {
		l.waiting = append(l.waiting, m)
	}
	l.mu.Unlock()
	select {
	case <-m.done:
		return m.rep, m.err
	case <-ctx.Done():
	}
	if l.withdraw(m) {
		return none, errors.Join(ErrNotSent, driver.ContextError(ctx))
	}
	select {
	case <-m.done: // a reply that has come all the same is not thrown away
		return m.rep, m.err
	default:
		return none, driver.ContextError(ctx)
	}
}

// sendAlone sends one request on its caller's goroutine. Requests that wait by then get another one.
func (l *Lanes[Req, Rep]) sendAlone(ctx context.Context, req Req) (rep Rep, err error) {
	if until, ends := ctx.Deadline(); l.o.Limit > 0 && (!ends || time.Until(until) > l.o.Limit) {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, l.o.Limit)
		defer cancel()
	}
	var took time.Duration
	defer func() { // also when send panics
		if next := l.next(1, took); len(next) > 0 {
			go l.serve(next)
		}
	}()
	reps, took, err := l.exchange(ctx, []Req{req})
	if err == nil {
		rep = reps[0]
	}
	return rep, err
}

// serve sends messages until no request waits, and leaves the lane.
func (l *Lanes[Req, Rep]) serve(members []*member[Req, Rep]) {
	for len(members) > 0 {
		reqs := make([]Req, len(members))
		for i, m := range members {
			reqs[i] = m.req
		}
		ctx, cancel := l.limited(members)
		reps, took, err := l.exchange(ctx, reqs)
		cancel()
		for i, m := range members {
			if m.err = err; err == nil {
				m.rep = reps[i]
			}
			close(m.done)
		}
		members = l.next(len(members), took)
	}
}

// limited is the context of a message. A request that is alone in it passes on the values of its
// caller's context, so that an instrumented client finds the caller's span.
func (l *Lanes[Req, Rep]) limited(members []*member[Req, Rep]) (context.Context, context.CancelFunc) {
	ctx := context.Background()
	if len(members) == 1 {
		ctx = context.WithoutCancel(members[0].ctx)
	}
	if l.o.Limit == 0 {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, l.o.Limit)
}

// exchange is one message and its answer. took is 0 if the width doesn't depend on it.
func (l *Lanes[Req, Rep]) exchange(ctx context.Context, reqs []Req) (reps []Rep, took time.Duration, err error) {
	var began time.Time
	if !l.width.isFixed() {
		began = time.Now()
	}
	reps, err = l.send(ctx, reqs)
	if err == nil && len(reps) != len(reqs) {
		err = errors.New("the number of replies is not the number of requests")
	}
	if err == nil && !began.IsZero() {
		took = time.Since(began)
	}
	return reps, took, err
}

// next takes the requests of a lane's next message. An empty result means that the lane is free, or
// that there is one lane less. ended is how many requests its last message had, and took how long
// that took; 0: it isn't known. If there is another lane, next begins it: a request that comes
// later must not find it free while others wait.
func (l *Lanes[Req, Rep]) next(ended int, took time.Duration) []*member[Req, Rep] {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sent -= ended
	if took > 0 {
		l.width.measured(took, time.Now(), len(l.waiting) > 0)
	}
	if len(l.waiting) == 0 || l.sending > l.width.lanes {
		l.sending--
		return nil
	}
	members := l.take()
	if len(l.waiting) > 0 && l.sending < l.width.lanes {
		l.sending++
		go l.serve(l.take())
	}
	return members
}

// take takes the requests of a message from those that wait. They are an even share of all, so that
// the messages under way stay about equal. If one message took all that wait, the others would
// carry nothing, and the service would have nothing to do while that one answer is taken in.
func (l *Lanes[Req, Rep]) take() []*member[Req, Rep] {
	share := (len(l.waiting) + l.sent + l.width.lanes - 1) / l.width.lanes
	n := min(len(l.waiting), l.o.Size, share)
	members := l.waiting[:n:n]
	if l.waiting = l.waiting[n:]; len(l.waiting) == 0 {
		l.waiting = nil // the array goes with its members
	}
	l.sent += n
	for _, m := range members {
		m.sent = true
	}
	return members
}

// withdraw takes back a request that was not sent.
func (l *Lanes[Req, Rep]) withdraw(m *member[Req, Rep]) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if m.sent {
		return false
	}
	i := slices.Index(l.waiting, m)
	l.waiting = slices.Delete(l.waiting, i, i+1) // in place: messages have the array's earlier elements alone
	return true
}
