package redlockbackend

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver/kit"
	"github.com/fencedlock/locker/internal/redisconn"
)

const (
	batchSize  = 128 // locks in one request
	lanesWidth = 4   // requests of one kind to one server that are being sent; then locks join

	workersStay = 4 // for each server, while there is something to do

	// mostUnanswered is how many requests may be under way to a server that was silent the last
	// time. Nobody waits for their answers. So without a limit there would be as many as the other
	// servers answer in the time that a request has.
	mostUnanswered = 256
)

// errTooSilent is the error of a request that was not sent because of mostUnanswered.
var errTooSilent = fmt.Errorf("%w to earlier requests; %w", locker.ErrNoAnswer, kit.ErrNotSent)

// node is one of the servers. No request that takes or renews a lock is sent twice: a server that
// doesn't answer is one of a minority, or the attempt fails. A release may be repeated (removal.ask).
type node struct {
	client *redis.Client
	conn   *redisconn.Conn
	words  *serverWords

	silent  atomic.Bool // requests had no answer for LeastSilence, and none has had one since
	quiet   redisconn.Quiet
	waiting atomic.Int32 // requests about one lock that are not answered yet

	// lanes are the ways of requests about one lock. Requests that join go out as one call of one
	// script, so each script has its own lanes. A second phase that went out as a first phase would
	// win nothing, and could create a lock again that is over.
	lanes    map[*redisconn.Script]*kit.Lanes[*item, reply]
	listener *redisconn.Listener // where it hears that a lock is free
	channel  any                 // of the listener, a string
}

func newNode(client *redis.Client, memory string, maxTTL, timeout time.Duration) *node {
	n := &node{
		client: client, conn: redisconn.NewConn(client, timeout),
		words: newServerWords(memory, maxTTL, client.Options().DB),
	}
	n.lanes = make(map[*redisconn.Script]*kit.Lanes[*item, reply])
	for _, s := range []*redisconn.Script{acquireScript, raiseScript, releaseScript} {
		n.lanes[s] = n.newLanes(s, timeout)
	}
	return n
}

func (n *node) newLanes(s *redisconn.Script, timeout time.Duration) *kit.Lanes[*item, reply] {
	return kit.NewLanes(func(ctx context.Context, items []*item) ([]reply, error) {
		return n.run(ctx, s, items...), nil
	}, kit.LaneOptions{
		Width: lanesWidth, Size: batchSize, Limit: timeout, CallersSend: true,
		MaxWidth: n.client.Options().PoolSize / 2, // acquire and release share the pool
	})
}

// ask sends one request, together with others of its kind if many are being sent. ctx covers all of
// it.
func (n *node) ask(ctx context.Context, s *redisconn.Script, it *item) reply {
	defer n.waiting.Add(-1)
	if n.waiting.Add(1) > mostUnanswered && n.silent.Load() {
		return reply{err: errTooSilent}
	}
	r, err := n.lanes[s].Do(ctx, it)
	if err != nil { // the message goes on without this caller
		r.err = redisconn.Overdue(err)
	}
	return r
}

// run sends a script for some locks, in one request.
func (n *node) run(ctx context.Context, s *redisconn.Script, items ...*item) []reply {
	channel := any("") // where this server can notify us that a lock is free; "" if it can't
	// A release names its place in the queue by the channel, whether a message would be heard or not.
	if s == releaseScript || n.listener.Subscribed() {
		channel = n.channel
	}
	replies, err := n.call(ctx, &call{script: s, channel: channel, items: items})
	if err != nil {
		replies = make([]reply, len(items))
		for i := range replies {
			replies[i].err = err
		}
	}
	return replies
}

// call sends a script. If the server doesn't know the script, nothing was executed, and it is sent
// once more with its whole text.
func (n *node) call(ctx context.Context, c *call) ([]reply, error) {
	began := time.Now()
	val, err := n.send(ctx, c, false)
	n.noteSilence(err, began)
	if err != nil && redisconn.Says(err, "NOSCRIPT") && ctx.Err() == nil {
		val, err = n.send(ctx, c, true)
	}
	if err != nil {
		return nil, redisconn.Overdue(err)
	}
	return parseReplies(val, max(len(c.items), 1))
}

// noteSilence notes whether the server was silent, from how a request has ended that began then.
func (n *node) noteSilence(err error, began time.Time) {
	switch {
	case errors.Is(err, kit.ErrNotSent): // that says nothing
	case err == nil || !redisconn.Silent(redisconn.Overdue(err)):
		n.quiet.Answered()
		n.silent.Store(false)
	case n.quiet.IsSilence(began):
		n.silent.Store(true)
	}
}

func (n *node) send(ctx context.Context, c *call, whole bool) (any, error) {
	c.server = n.words
	cmd := redisconn.NewCommand(ctx, c.words(whole)...)
	if err := n.conn.Send(ctx, cmd); err != nil {
		return nil, err
	}
	return cmd.Result()
}

// name is how errors call the server: by its address, never by a password.
func (n *node) name() string { return n.client.Options().Addr }
