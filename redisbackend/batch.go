package redisbackend

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencedlock/locker/driver/kit"
	"github.com/fencedlock/locker/internal/redisconn"
)

const (
	messageTimeout = 2 * time.Second // of one message, its repetitions and their answers
	maxTries       = 4               // of a message whose repetition is harmless
)

// batch is requests that go to one server in one message. They are sent again while they may succeed.
type batch struct {
	reqs    []request
	answers []answer

	asks         context.Context // the caller's: when it has ended, nothing is sent any more
	end          time.Time       // until when answers are waited for
	persistUntil time.Time       // until when a request that is alone waits for its slot

	// What is sent next.
	try   int
	open  []int // the requests without an answer; nil: all
	whole bool  // with the whole texts of the scripts

	// What the answers to it say.
	again   []int         // the requests to send again
	unknown bool          // the server doesn't know a script
	pause   time.Duration // before the repetition
}

// send sends requests in one message, and repeats those that may succeed. All scripts may be
// repeated. It returns after messageTimeout, or when ctx ends where the connection can obey that.
func (s *router) send(ctx context.Context, reqs []request) []answer {
	b := batch{reqs: reqs, answers: make([]answer, len(reqs)), try: 1, asks: ctx}
	ctx = b.setLimits(ctx, s.conn)
	for s.exchange(ctx, &b); len(b.again) > 0; s.exchange(ctx, &b) {
		if b.try == 1 { // most messages need no timer
			var cancel context.CancelFunc
			ctx, cancel = context.WithDeadline(ctx, b.end)
			defer cancel()
		}
		if !kit.Sleep(ctx, b.pause) || b.asks.Err() != nil {
			break
		}
		b.next()
	}
	for i := range b.answers {
		a := &b.answers[i]
		a.err = s.conn.NameServer(ctx, a.err, reqs[i].key)
	}
	return b.answers
}

// setLimits computes how long the batch may take, and returns the context to send it with.
func (b *batch) setLimits(ctx context.Context, conn *redisconn.Conn) context.Context {
	began := time.Now()
	b.end = began.Add(messageTimeout)
	switch first := &b.reqs[0]; {
	case !first.answerBy.IsZero():
		ctx, b.end = context.WithoutCancel(ctx), first.answerBy
	case first.deadlineOnly: // or ctx is a lane's, which doesn't end
		ctx, b.end = conn.DeadlineOnly(ctx, b.end)
	}
	limit := b.end
	if until, limited := b.asks.Deadline(); limited && until.Before(limit) {
		limit = until
	}
	b.persistUntil = limit.Add(began.Sub(limit) / 4) // three quarters of the time
	return ctx
}

// exchange sends the open requests once, and takes what comes back: an answer for each, or one error
// for all.
func (s *router) exchange(ctx context.Context, b *batch) {
	n := len(b.open)
	if b.open == nil {
		n = len(b.reqs)
	}
	cmds := make([]redis.Cmder, n)
	for j := range cmds {
		cmds[j] = s.conn.NewCommand(ctx, b.reqs[b.nth(j)].words(b.whole, s.db))
	}
	failed := s.conn.SendUntil(ctx, b.end, cmds...)
	for j, cmd := range cmds {
		result, err := any(nil), failed
		if failed == nil {
			result, err = cmd.(*redisconn.Command).Result()
		}
		b.take(ctx, b.nth(j), result, err)
	}
}

// nth is the n-th open request. A nil list means all: that saves an allocation for each message.
func (b *batch) nth(n int) int {
	if b.open == nil {
		return n
	}
	return b.open[n]
}

// take notes what came back for a request, and whether it is to be sent again.
func (b *batch) take(ctx context.Context, i int, result any, err error) {
	a := &b.answers[i]
	switch {
	case err == nil:
		a.reply, a.err = parseReply(result)
	case a.err != nil && errors.Is(err, kit.ErrNotSent):
		// The time was up before the repetition: the earlier error says more.
	default:
		a.err = redisconn.Overdue(err)
		if ctx.Err() == nil && b.asks.Err() == nil && b.repeats(i) {
			b.again = append(b.again, i)
		}
	}
}

// repeats reports whether a request that has failed is to be sent again:
//   - NOSCRIPT: nothing was executed. It is sent again with the whole text. The answer may come
//     late: from the new server of a slot.
//   - A server that has just become a replica, or a slot on the move: refused. It is sent again a
//     little later.
//   - A broken connection: nobody knows. It is sent again at once, and the answer says that a copy
//     may be in flight.
func (b *batch) repeats(i int) bool {
	a := &b.answers[i]
	unknown := redisconn.Says(a.err, "NOSCRIPT")
	switch {
	case b.try >= maxTries && !b.persists(i) && (b.whole || !unknown):
		return false
	case unknown:
		b.unknown = true
	case redisconn.Says(a.err, "READONLY", "TRYAGAIN"):
		b.pause = time.Duration(min(b.try*b.try, 10)) * 10 * time.Millisecond
	case redisconn.Broken(a.err):
		a.copyInFlight = true
	default:
		return false
	}
	return true
}

// persists reports whether a request goes on beyond maxTries. Slots take their time to move: a
// request that is alone, and keeps no other waiting, goes on for three quarters of its time. It
// doesn't use all of its time, because a refusal says more than a timeout: that nothing was
// executed.
func (b *batch) persists(i int) bool {
	return len(b.reqs) == 1 && !b.reqs[i].polling && redisconn.Says(b.answers[i].err, "TRYAGAIN") &&
		time.Now().Before(b.persistUntil)
}

// next makes the batch the one that is sent again.
func (b *batch) next() {
	b.try++
	b.open, b.whole = b.again, b.whole || b.unknown
	b.again, b.unknown, b.pause = nil, false, 0
}
