// Package redisconn is go-redis as the backends with Redis servers need it. It reads the URL of a
// server, makes calls that end in time, sends scripts, says what an error proves about a request,
// checks what a server is and permits, and keeps a subscription alive.
//
// It works around the following behaviour of go-redis. The places are in
// github.com/redis/go-redis/v9 v9.22.0.
//
//   - Commands are sent again without the caller's knowledge (baseClient.process in redis.go,
//     ClusterClient.process in osscluster.go). A caller must know that an earlier copy of a request
//     may still arrive. A [Command] therefore says NoRetry, which Cmder in command.go defines. The
//     clients of [Target.Universal] also have MaxRetries -1 and DialerRetries 1.
//   - A Cluster still sends a command to another server after MOVED, ASK, READONLY and errors of
//     the pool (ClusterClient.process and processPipelineNodeConn in osscluster.go). NoRetry
//     doesn't prevent it. If the second server's connection breaks, the command keeps the error of
//     the first, which would prove that nothing was executed; and the commands of a pipeline that
//     were answered get the error of one that follows them (setCmdsErr in command.go). See
//     [Command.SetErr].
//   - A context doesn't interrupt a call. Without ContextTimeoutEnabled its deadline doesn't bound
//     one either (baseClient.context in redis.go). See [Conn.Call], and [Pool] for clients that are
//     made by this package.
//   - An error of a time limit doesn't say which server was asked, unlike errors of connections. See
//     [Conn.NameServer].
//   - A subscription connects again without a word, and messages are lost meanwhile (PubSub.conn in
//     pubsub.go). A connection that was cut silently looks like one without messages. PubSub.Close
//     waits for a connect that is in progress. See [Listener].
//   - A call needs more stack than a new goroutine has. See [GrowStack].
package redisconn

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver/kit"
)

// Conn makes calls with a client that return in time. The caller owns the client.
type Conn struct {
	Client  redis.UniversalClient
	Cluster *redis.ClusterClient // the same client, if it is of a Cluster; otherwise nil

	pool    *Pool         // sends the commands; nil: Client does
	bounded bool          // contexts bound calls: ContextTimeoutEnabled is set
	limit   time.Duration // the client's own timeouts for reading and writing; 0: any
	closing chan struct{} // closed by Close
}

// NewConn makes a Conn. Where limit is positive, a client of one server that isn't bounded by
// contexts gets timeouts for reading and writing that are no longer, so that most calls need no
// goroutine to end in time. The copy of the client that has them doesn't have its hooks.
func NewConn(client redis.UniversalClient, limit time.Duration) *Conn {
	c := &Conn{Client: client, closing: make(chan struct{})}
	switch client := client.(type) {
	case *redis.Client:
		o := client.Options()
		c.bounded, c.limit = o.ContextTimeoutEnabled, limit
		tooLong := func(timeout time.Duration) bool { return timeout <= 0 || timeout > limit }
		if limit > 0 && !c.bounded && (tooLong(o.ReadTimeout) || tooLong(o.WriteTimeout)) {
			c.Client = client.WithTimeout(limit) // shares the connections
		}
	case *redis.ClusterClient:
		c.Cluster, c.bounded = client, client.Options().ContextTimeoutEnabled
	}
	return c
}

// UsePool makes Send obey contexts if the client reaches one server, without Sentinels. Commands
// then go through a [Pool], whose clients have the same settings. So the client must have been made
// with the settings of [Target]: a caller's client may have hooks, which other clients don't have.
// UsePool is called before the first call. Close closes the pool as well.
func (c *Conn) UsePool() {
	if client, ok := c.Client.(*redis.Client); ok && !UsesSentinels(client) {
		c.pool = NewPool(client.Options())
	}
}

// ObeysContext reports whether Send and SendUntil return at once when their context ends.
func (c *Conn) ObeysContext() bool { return c.pool != nil }

// Close makes calls return that wait for an answer. It doesn't close the client. It is called once.
func (c *Conn) Close() {
	close(c.closing)
	if c.pool != nil {
		c.pool.close()
	}
}

// Closed reports whether Close was called.
func (c *Conn) Closed() bool {
	select {
	case <-c.closing:
		return true
	default:
		return false
	}
}

// Call makes a call of go-redis, and returns when ctx is over, or a little later. After an error
// the call may still be running, so its results must not be read. The caller must not write them
// either, as a return does to results with names.
//
// If nothing else bounds the call, it is made in a goroutine. That goroutine is left alone when the
// time is up, and ends by the client's own timeouts.
func (c *Conn) Call(ctx context.Context, call func()) error {
	until, ends := ctx.Deadline()
	// The client's own timeouts are too long for a context with little time.
	isShort := c.bounded && ends || c.limit > 0 && (!ends || time.Until(until) > c.limit/2)
	if !isShort || ctx.Err() != nil {
		return c.CallAside(ctx, call)
	}
	call()
	return nil
}

// CallAside is Call, always in a goroutine, for callers that must not wait longer than ctx. A call may
// have to connect and to greet the server first, and takes the client's timeouts once more for each step.
func (c *Conn) CallAside(ctx context.Context, call func()) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%w: %w", locker.ErrNoAnswer, kit.ErrNotSent)
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
		return locker.ErrNoAnswer
	case <-c.closing:
		return kit.ErrClosing
	}
}

// Send sends commands in one message and waits for their results. Each command then holds its
// result. After an error the commands must not be read.
func (c *Conn) Send(ctx context.Context, cmds ...redis.Cmder) error {
	if c.pool != nil {
		end, _ := ctx.Deadline()
		return c.pool.send(ctx, end, cmds)
	}
	return c.Call(ctx, func() { c.process(ctx, cmds) })
}

// SendAside is Send for callers that must not wait longer than ctx: see CallAside.
func (c *Conn) SendAside(ctx context.Context, cmds ...redis.Cmder) error {
	if c.pool != nil {
		return c.Send(ctx, cmds...)
	}
	return c.CallAside(ctx, func() { c.process(ctx, cmds) })
}

func (c *Conn) process(ctx context.Context, cmds []redis.Cmder) {
	if len(cmds) == 1 && c.Cluster == nil {
		_ = c.Client.Process(ctx, cmds[0])
		return
	}
	pipe := c.Client.Pipeline()
	_ = pipe.BatchProcess(ctx, cmds...)
	_, _ = pipe.Exec(ctx)
}

// SendUntil is Send with a deadline in addition to ctx's. Where ObeysContext is true, it
// returns at once when ctx ends.
func (c *Conn) SendUntil(ctx context.Context, end time.Time, cmds ...redis.Cmder) error {
	if c.pool != nil {
		return c.pool.send(ctx, end, cmds)
	}
	if until, limited := ctx.Deadline(); !limited || until.After(end) {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, end)
		defer cancel()
	}
	return c.Send(ctx, cmds...)
}

// DoubtIdle has the idle connections of the pool on which nothing was heard since then replaced when
// they are needed: they may be dead. A caller calls it when it has had no answer on another connection
// since then. If the answer comes after all, there is no doubt any more.
func (c *Conn) DoubtIdle(since time.Time) {
	if c.pool != nil {
		c.pool.doubtIdle(since)
	}
}

// DeadlineOnly returns what SendUntil is given in place of ctx and end if ctx ends at its deadline
// and never before. With a pool, the deadline is then a part of end: a context that ends by itself
// has a timer, which costs more than the rest of the context.
func (c *Conn) DeadlineOnly(ctx context.Context, end time.Time) (context.Context, time.Time) {
	if c.pool == nil {
		return ctx, end
	}
	if until, limited := ctx.Deadline(); limited && until.Before(end) {
		end = until
	}
	return context.Background(), end
}
