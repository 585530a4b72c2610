package redlockbackend

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencedlock/locker/driver/kit"
	"github.com/fencedlock/locker/internal/redisconn"
)

const (
	batchSize = 128 // locks in one request
	alone     = 4   // requests of one kind to one server that go out by themselves before others join
)

// node is one of the servers. It sends requests and knows how go-redis may fail. Nothing is sent twice: a server that
// doesn't answer is one of a minority, or the attempt fails.
type node struct {
	client  *redis.Client
	memory  string        // the key of the server's memory
	max     time.Duration // the longest TTL
	closing chan struct{} // closed when nobody may wait for an answer any more

	// A context doesn't interrupt a call of go-redis. It bounds one if ContextTimeoutEnabled is set.
	bounded bool

	silent atomic.Bool // the latest request was not answered in time

	lanes    map[*script]*lane     // of what is sent for one lock at a time
	listener *redisconn.Listener // where it hears that a lock is free
}

// lane is the way of one kind of requests. Those that join go out as one call of one script, so each script has a lane of
// its own: a second phase that went out as a first one would win nothing, and could make a lock anew that is over.
type lane struct {
	going atomic.Int32            // requests under way by themselves
	group *kit.Group[item, reply] // in which requests join while more than those few are under way
}

func newNode(client *redis.Client, memory string, longest, limit time.Duration, closing chan struct{}) *node {
	n := &node{client: client, memory: memory, max: longest, closing: closing, bounded: client.Options().ContextTimeoutEnabled}
	n.lanes = make(map[*script]*lane)
	for _, s := range []*script{acquireScript, raiseScript, releaseScript} {
		n.lanes[s] = n.lane(s, limit)
	}
	return n
}

func (n *node) lane(s *script, limit time.Duration) *lane {
	return &lane{group: kit.NewGroup(func(ctx context.Context, items []item) ([]reply, error) {
		return n.run(ctx, s, items...), nil
	}, limit, batchSize)}
}

// ask sends one request, together with others of its kind if many are under way. ctx covers all of it.
func (n *node) ask(ctx context.Context, s *script, it item) reply {
	l := n.lanes[s]
	defer l.going.Add(-1)
	if l.going.Add(1) <= alone { // without the detour through the group's goroutine
		return n.run(ctx, s, it)[0]
	}
	r, err := l.group.Do(ctx, it)
	if err != nil { // the message goes on without us
		r.err = redisconn.Overdue(err)
	}
	return r
}

// run sends a script for some locks, in one request, and once more, with its whole text, if the server doesn't know it:
// then nothing was carried out.
func (n *node) run(ctx context.Context, s *script, items ...item) []reply {
	channel := n.channel()
	if s == releaseScript { // it gives up a place, whether a message would be heard or not
		channel = n.listener.Channel()
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

// channel is where this server can tell us that a lock is free; "" if it can't.
func (n *node) channel() string {
	if !n.listener.Stands() {
		return ""
	}
	return n.listener.Channel()
}

func (n *node) call(ctx context.Context, c *call) ([]reply, error) {
	val, err := n.send(ctx, c, false)
	if !errors.Is(err, kit.ErrNotSent) {
		n.silent.Store(redisconn.Silent(redisconn.Overdue(err)))
	}
	if redisconn.Says(err, "NOSCRIPT") && ctx.Err() == nil {
		val, err = n.send(ctx, c, true)
	}
	if err != nil {
		return nil, redisconn.Overdue(err)
	}
	return parseReplies(val, max(len(c.items), 1))
}

func (n *node) send(ctx context.Context, c *call, whole bool) (any, error) {
	c.memory, c.max, c.db = n.memory, n.max, n.client.Options().DB
	cmd := c.command(ctx, whole)
	if err := n.do(ctx, func() { _ = n.client.Process(ctx, cmd) }); err != nil {
		return nil, err
	}
	return cmd.Result()
}

// do makes a call of go-redis that returns when ctx is over, or a little later. After an error the call may be going on:
// where nothing else bounds it, it is made aside, in a goroutine that is left behind when the time is up, and ends by the
// client's own timeouts.
func (n *node) do(ctx context.Context, call func()) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%w: %w", redisconn.ErrNoAnswer, kit.ErrNotSent)
	}
	if n.bounded {
		call()
		return nil
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		call()
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return redisconn.ErrNoAnswer
	case <-n.closing:
		return redisconn.ErrClosing
	}
}

func (n *node) isClosing() bool {
	select {
	case <-n.closing:
		return true
	default:
		return false
	}
}

// name is how errors call the server: by its address, never by a password.
func (n *node) name() string { return n.client.Options().Addr }

var errForgetful = errors.New("the server may have forgotten leases, and grants nothing until they are over")
