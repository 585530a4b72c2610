package redisconn

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencedlock/locker/driver/kit"
)

// Lines are ways to one server on which a call returns at once when its context ends. Each is a
// client with one connection, which is closed to end the call: go-redis has no other way, and tells
// nobody which connection of a pool a call waits on.
type Lines struct {
	options redis.Options
	slots   chan struct{} // one for each line that may be busy

	mu     sync.Mutex
	idle   []*line // the one that was used last is at the end
	busy   map[*line]struct{}
	closed bool
}

// NewLines makes ways to a server with the settings of a client of it, as many as that client has
// connections. The settings must have ContextTimeoutEnabled. A Dialer among them isn't used.
func NewLines(o *redis.Options) *Lines {
	ls := &Lines{options: *o, slots: make(chan struct{}, o.PoolSize), busy: make(map[*line]struct{})}
	ls.options.PoolSize = 2 // with one, go-redis refuses to connect for up to a second after each failure
	ls.options.Protocol = 2 // with 3, it looks for pushed messages before and after each command
	return ls
}

// send sends commands in one message and waits for their results, until end at the latest. It
// returns at once when ctx ends.
//
//nolint:contextcheck // the end of ctx interrupts the call
func (ls *Lines) send(ctx context.Context, end time.Time, cmds []redis.Cmder) error {
	now := time.Now()
	if ctx.Err() != nil || !end.IsZero() && !now.Before(end) {
		return fmt.Errorf("%w: %w", kit.ErrNoAnswer, kit.ErrNotSent)
	}
	l, err := ls.take(ctx, end)
	if err != nil {
		return err
	}
	l.refresh(now)
	call := &lineCall{Context: context.Background(), end: end}
	l.begin(call)
	stop := func() bool { return true }
	if ctx.Done() != nil {
		stop = context.AfterFunc(ctx, func() { l.interrupt(call) })
	}
	interrupted, reusable := false, false
	defer func() { // also when a call panics
		stop()
		ls.put(l, reusable)
	}()
	err = l.process(call, cmds)
	interrupted = l.finish()
	reusable = !interrupted && l.keeps(cmds)
	if !interrupted && slices.ContainsFunc(cmds, func(cmd redis.Cmder) bool { return cmd.Err() != nil && Broken(cmd.Err()) }) {
		ls.dropIdle()
	}
	if interrupted && err != nil && !Unsent(err) {
		return kit.ErrNoAnswer // go-redis says that the connection was closed
	}
	return nil
}

// take waits for a line that is free.
func (ls *Lines) take(ctx context.Context, end time.Time) (*line, error) {
	select {
	case ls.slots <- struct{}{}:
	default:
		if err := ls.waitForSlot(ctx, end); err != nil {
			return nil, err
		}
	}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if ls.closed {
		<-ls.slots
		return nil, fmt.Errorf("%w: %w", kit.ErrClosing, kit.ErrNotSent)
	}
	var l *line
	if n := len(ls.idle); n > 0 {
		l, ls.idle = ls.idle[n-1], ls.idle[:n-1]
	} else {
		l = newLine(ls.options)
	}
	ls.busy[l] = struct{}{}
	return l, nil
}

func (ls *Lines) waitForSlot(ctx context.Context, end time.Time) error {
	ctx, cancel := within(ctx, end)
	defer cancel()
	select {
	case ls.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", kit.ErrNoAnswer, kit.ErrNotSent)
	}
}

func (ls *Lines) put(l *line, reusable bool) {
	ls.mu.Lock()
	delete(ls.busy, l)
	reusable = reusable && !ls.closed
	if reusable {
		ls.idle = append(ls.idle, l)
	}
	ls.mu.Unlock()
	if !reusable {
		_ = l.client.Close()
	}
	<-ls.slots
}

// dropIdle closes what is idle when a connection has broken: what has ended one may have ended all,
// and each further try of a request would find another dead one.
func (ls *Lines) dropIdle() {
	ls.mu.Lock()
	idle := ls.idle
	ls.idle = nil
	ls.mu.Unlock()
	for _, l := range idle {
		_ = l.client.Close()
	}
}

// close ends all calls.
func (ls *Lines) close() {
	ls.mu.Lock()
	ls.closed = true
	idle := ls.idle
	ls.idle = nil
	var busy []*line
	for l := range ls.busy {
		busy = append(busy, l)
	}
	ls.mu.Unlock()
	for _, l := range slices.Concat(idle, busy) {
		l.mu.Lock()
		call := l.call
		l.mu.Unlock()
		if call != nil {
			l.interrupt(call)
		} else {
			_ = l.client.Close()
		}
	}
}
