package redisconn

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// A script that lacks a permission in the middle would leave half of its work done. So a backend
// tries each command that its scripts need when it is opened, on keys under its prefix, and says
// which permissions are missing.

// Permissions says what a user needs, for the error about a missing permission.
type Permissions struct {
	Keys, Channels string // patterns, for example billing:*
	Doc            string // the page that lists the commands
}

// TrySubscribe subscribes to a channel, calls confirmed if the server has confirmed that, and ends
// the subscription. It waits for limit at most. confirmed may be nil.
func (c *Conn) TrySubscribe(
	ctx context.Context, p Permissions, channel string, limit time.Duration,
	confirmed func() error,
) error {
	if until, ok := ctx.Deadline(); ok {
		limit = min(limit, max(time.Until(until), time.Millisecond))
	}
	var err error
	if left := c.Call(ctx, func() {
		pubsub := c.Client.Subscribe(ctx, channel)
		defer pubsub.Close()
		if _, err = pubsub.ReceiveTimeout(ctx, limit); err == nil && confirmed != nil {
			err = confirmed()
		}
	}); left != nil {
		return left
	}
	return p.Explain(err)
}

// ErrorOf makes one error of what a probe returns.
func (p Permissions) ErrorOf(failed []any) error {
	var commands []string
	var first error
	for pair := range slices.Chunk(failed, 2) {
		commands = append(commands, "+"+strings.ToLower(fmt.Sprint(pair[0])))
		if first == nil && len(pair) == 2 {
			first = replyError(fmt.Sprint(pair[1]))
			if pair[0] == "" {
				first = otherDatabase{replyError(fmt.Sprint(pair[1]))}
			}
		}
	}
	if first == nil {
		return nil
	}
	slices.Sort(commands)
	return p.Explain(first, slices.Compact(commands)...)
}

// replyError is an error reply that came in the answer of a script.
type replyError string

func (e replyError) Error() string { return string(e) }
func (replyError) RedisError()     {}

// denials are what versions from 6.2 to 8 say about a missing permission, outside of scripts and in
// them.
var denials = []string{"NOPERM", "ser executing the script can't", "ACL failure in script"}

// Denied reports whether err says that a permission is missing.
func Denied(err error) bool {
	return err != nil && slices.ContainsFunc(denials, func(words string) bool { return strings.Contains(err.Error(), words) })
}

// Explain adds what to do to an error that an operator can fix. commands are those that failed, if
// they are known.
func (p Permissions) Explain(err error, commands ...string) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	switch {
	case strings.Contains(text, "READONLY"):
		return fmt.Errorf("the server is a replica, and keys are written on its master; give the master's address: %w", err)
	case Denied(err):
		if len(commands) == 0 {
			commands = []string{"see " + p.Doc + " for the commands"}
		}
		return denied(err, fmt.Sprintf("~%s &%s %s", p.Keys, p.Channels, strings.Join(commands, " ")))
	}
	return err
}

// permitted adds what is missing to the error of a missing permission for a command.
func permitted(err error, command string) error {
	if Says(err, "NOPERM") && strings.Contains(err.Error(), "'"+command+"'") {
		return denied(err, "+"+command)
	}
	return err
}

func denied(err error, missing string) error {
	return fmt.Errorf("a permission is missing (ACL: %s): %w", missing, err)
}
