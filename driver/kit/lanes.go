package kit

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/fencedlock/locker/driver"
)

// ErrNotSent says that a request left its [Lanes] before it was sent: it can't be executed any more.
var ErrNotSent = errors.New("request was not sent")

// defaultWidth is how many messages go out at the same time. With fewer, requests wait though the
// connections are idle. With more, they rarely join.
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
	sending int // messages under way
	sent    int // requests in those
	waiting []*member[Req, Rep]
}

// LaneOptions say how requests travel in [Lanes].
type LaneOptions struct {
	Width int           // messages under way at the same time; 0: 4
	Size  int           // requests in one message, at most; 0: 1
	Limit time.Duration // the time of one message and its answer

	// CallersSend has a request that finds a free lane sent on its caller's goroutine, which saves the
	// way to another one. Its message has the caller's context, within Limit, so send must return when
	// that context ends. Messages with several requests have a context of their own.
	CallersSend bool
}

// member is a request and what becomes of it.
type member[Req, Rep any] struct {
	req  Req
	rep  Rep
	err  error
	sent bool
	done chan struct{}
}

// NewLanes makes lanes. send sends some requests, at most o.Size, in one message, and returns the
// reply to each, in order, or an error for them all. Its context ends after o.Limit, and is no
// caller's unless o.CallersSend is set. Replies that say "no" are replies, not errors.
func NewLanes[Req, Rep any](send func(ctx context.Context, reqs []Req) ([]Rep, error), o LaneOptions) *Lanes[Req, Rep] {
	if o.Width <= 0 {
		o.Width = defaultWidth
	}
	o.Size = max(o.Size, 1)
	return &Lanes[Req, Rep]{send: send, o: o}
}

// Do sends req and returns its reply. ctx covers the caller's waiting. When it ends before the
// request was sent, the request is withdrawn and the error matches [ErrNotSent]. When it ends later,
// the request goes on, and as after any other error nobody knows whether it was executed, or when.
// A driver that must know passes a context that doesn't end. The other requests of a message don't
// notice.
func (l *Lanes[Req, Rep]) Do(ctx context.Context, req Req) (Rep, error) {
	var none Rep
	if err := driver.ContextError(ctx); err != nil {
		return none, errors.Join(ErrNotSent, err)
	}
	l.mu.Lock()
	free := l.sending < l.o.Width // then nobody waits
	if free {
		l.sending++
		l.sent++
	}
	if free && l.o.CallersSend {
		l.mu.Unlock()
		return l.sendAlone(ctx, req)
	}
	m := &member[Req, Rep]{req: req, sent: free, done: make(chan struct{})}
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
	if until, ends := ctx.Deadline(); !ends || time.Until(until) > l.o.Limit {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, l.o.Limit)
		defer cancel()
	}
	defer func() { // also when send panics
		if next := l.next(1); len(next) > 0 {
			go l.serve(next)
		}
	}()
	reps, err := l.exchange(ctx, []Req{req})
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
		ctx, cancel := context.WithTimeout(context.Background(), l.o.Limit)
		reps, err := l.exchange(ctx, reqs)
		cancel()
		for i, m := range members {
			if m.err = err; err == nil {
				m.rep = reps[i]
			}
			close(m.done)
		}
		members = l.next(len(members))
	}
}

// exchange is one message and its answer.
func (l *Lanes[Req, Rep]) exchange(ctx context.Context, reqs []Req) ([]Rep, error) {
	reps, err := l.send(ctx, reqs)
	if err == nil && len(reps) != len(reqs) {
		err = errors.New("the number of replies is not the number of requests")
	}
	return reps, err
}

// next takes the requests of a lane's next message. An empty result means that the lane is free. ended is how many
// requests its last message had. They are an even share of all, so that the messages under way stay
// about equal. If one message took all that wait, the others would carry nothing, and the service
// would have nothing to do while that one answer is taken in.
func (l *Lanes[Req, Rep]) next(ended int) []*member[Req, Rep] {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sent -= ended
	share := (len(l.waiting) + l.sent + l.o.Width - 1) / l.o.Width
	n := min(len(l.waiting), l.o.Size, share)
	if n == 0 {
		l.sending--
		return nil
	}
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
	for i, other := range l.waiting {
		if other == m {
			l.waiting = append(l.waiting[:i:i], l.waiting[i+1:]...)
			break
		}
	}
	return true
}
