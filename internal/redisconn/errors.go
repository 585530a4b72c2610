// Package redisconn is what both backends with Redis servers need of go-redis: what an error says of a request, what a server says of
// itself, and a subscription that is kept up.
package redisconn

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/driver/kit"
)

var (
	ErrNoAnswer = errors.New("no answer in time")
	ErrClosing  = errors.New("no answer before the locker was closed")
)

// refusals are the beginnings of errors by which a server says that it has carried nothing out: it refuses the command,
// or the first write in it, at which nothing was written yet. (A script runs in one piece, so what forbids its first
// write was so from its beginning.)
var refusals = []string{
	"NOSCRIPT", "MOVED", "ASK", "TRYAGAIN", "CROSSSLOT", "CLUSTERDOWN", "LOADING", "MASTERDOWN", "READONLY", "OOM",
	"NOREPLICAS", "MISCONF", "BUSY", "NOAUTH", "WRONGPASS", "NOPERM", "max number of clients",
}

// Says reports whether err is an error reply that begins with one of words. Redis 6 puts the error of a command in a
// script at the end of one of its own: "ERR Error running script (call to …): … -READONLY You can't write …".
func Says(err error, words ...string) bool {
	var reply redis.Error
	if !errors.As(err, &reply) {
		return false
	}
	text := strings.TrimPrefix(reply.Error(), "ERR ")
	_, inner, inScript := strings.Cut(text, ": -")
	for _, word := range words {
		if strings.HasPrefix(text, word) || inScript && strings.HasPrefix(inner, word) {
			return true
		}
	}
	return false
}

// Certain reports whether err leaves no doubt that a request was not carried out, and won't be: it was not sent, or the
// server has refused it. After any other error nobody knows. An error reply that is none of the refusals counts as
// such, because a script that fails in the middle has done its first half.
func Certain(err error) bool { return Unsent(err) || Says(err, refusals...) }

// Unsent reports whether err happened before anything was sent.
func Unsent(err error) bool {
	var op *net.OpError
	return errors.Is(err, kit.ErrNotSent) || errors.As(err, &op) && op.Op == "dial" ||
		errors.Is(err, redis.ErrPoolTimeout) || errors.Is(err, redis.ErrPoolExhausted) || errors.Is(err, redis.ErrClosed)
}

// Broken reports whether err is that of a connection that has ended, of which another may work: one that was idle
// while the server restarted, say. A connection on which nothing is heard is not broken.
func Broken(err error) bool {
	var reply redis.Error
	return !errors.As(err, &reply) && !Unsent(err) && !Silent(err)
}

// Overdue makes [ErrNoAnswer] of the end of a time limit, which is none of the caller's: an error that matches that of a
// context says that the caller gave up.
func Overdue(err error) error {
	switch {
	case !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, kit.ErrNotSent):
		return fmt.Errorf("%w: %w", ErrNoAnswer, kit.ErrNotSent)
	}
	return ErrNoAnswer
}

// GivenUp is [driver.ContextError] for a call whose time limit was also the connection's: that may come a moment before the context's.
func GivenUp(ctx context.Context) error {
	if until, limited := ctx.Deadline(); limited && !time.Now().Before(until) {
		<-ctx.Done()
	}
	return driver.ContextError(ctx)
}

// Silent reports whether err says no more than that nothing was heard in time.
func Silent(err error) bool {
	var network net.Error
	return errors.Is(err, ErrNoAnswer) || errors.Is(err, ErrClosing) || errors.As(err, &network) && network.Timeout()
}

// Sleep is false when ctx was over first.
func Sleep(ctx context.Context, d time.Duration) bool {
	if d == 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
