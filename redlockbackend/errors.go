package redlockbackend

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
)

var (
	errExpired  = fmt.Errorf("%w: a majority of the servers don't have it any more", locker.ErrLost)
	errBuried   = errors.New("the server has it as released already")
	errNoAnswer = errors.New("no answer in time")
	errClosing  = errors.New("no answer before the locker was closed")
)

// refusals are the beginnings of errors by which a server says that it has carried nothing out: it refuses the command,
// or the first write in it, at which nothing was written yet.
var refusals = []string{
	"NOSCRIPT", "MOVED", "CLUSTERDOWN", "LOADING", "MASTERDOWN", "READONLY", "OOM", "NOREPLICAS", "MISCONF", "BUSY",
	"NOAUTH", "WRONGPASS", "NOPERM", "max number of clients",
}

// says reports whether err is an error reply that begins with one of words. Redis 6 puts the error of a command in a
// script at the end of one of its own: "ERR Error running script (call to …): … -READONLY You can't write …".
func says(err error, words ...string) bool {
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

// certain reports whether err leaves no doubt that a request was not carried out, and won't be: it was not sent, or the
// server has refused it. After any other error nobody knows.
func certain(err error) bool {
	var op *net.OpError
	return errors.Is(err, driver.ErrNotSent) || errors.As(err, &op) && op.Op == "dial" ||
		errors.Is(err, redis.ErrPoolTimeout) || errors.Is(err, redis.ErrPoolExhausted) || errors.Is(err, redis.ErrClosed) ||
		says(err, refusals...)
}

// overdue makes errNoAnswer of the end of a time limit, which is none of the caller's: an error that matches that of a
// context says that the caller gave up.
func overdue(err error) error {
	switch {
	case !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, driver.ErrNotSent):
		return fmt.Errorf("%w: %w", errNoAnswer, driver.ErrNotSent)
	}
	return errNoAnswer
}

// silent reports whether err says no more than that nothing was heard in time.
func silent(err error) bool {
	var network net.Error
	return errors.Is(err, errNoAnswer) || errors.Is(err, errClosing) || errors.As(err, &network) && network.Timeout()
}
