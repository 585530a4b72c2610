package redlockbackend

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/internal/redisconn"
)

// A script that lacks a permission in the middle would leave half of its work behind. So when a Locker is opened, each
// command that the scripts need is tried on keys of the prefix, and so is the subscription.

// subscribe tries whether a subscription is permitted.
func (d *redlock) subscribe(ctx context.Context, n *node) error {
	var err error
	left := n.do(ctx, func() {
		pubsub := n.client.Subscribe(ctx, d.turns.channel)
		defer pubsub.Close()
		_, err = pubsub.ReceiveTimeout(ctx, max(3*d.nodeTimeout, time.Second))
	})
	if left != nil {
		return left
	}
	return d.explainDenial(err, nil)
}

var probeScript = newScript("probe.lua")

// probe tries the commands of the scripts.
func (d *redlock) probe(ctx context.Context, n *node) error {
	key := lockKey(d.prefix, "probe "+driver.NewOwner())
	for _, how := range [][2]string{{"evalsha", probeScript.digest}, {"eval", probeScript.text}} { // both are needed
		cmd := &command{redis.NewCmd(ctx, how[0], how[1], 2, key, memoryKey(d.prefix), d.turns.channel, n.client.Options().DB)}
		if err := n.do(ctx, func() { _ = n.client.Process(ctx, cmd) }); err != nil {
			return err
		}
		failed, err := cmd.Slice()
		if err != nil && (how[0] == "eval" || !redisconn.Says(err, "NOSCRIPT")) {
			return d.explainDenial(err, nil)
		}
		if err := d.probed(failed); err != nil {
			return err
		}
	}
	return nil
}

// probed makes one error of what the probe returns: the commands that failed, each followed by its error.
func (d *redlock) probed(failed []any) error {
	var commands []string
	var first error
	for pair := range slices.Chunk(failed, 2) {
		commands = append(commands, "+"+strings.ToLower(fmt.Sprint(pair[0])))
		if first == nil && len(pair) == 2 {
			first = unfit(fmt.Sprint(pair[1]))
		}
	}
	slices.Sort(commands)
	return d.explainDenial(first, slices.Compact(commands))
}

// unfit is an error reply that came in the answer of a script.
type unfit string

func (e unfit) Error() string { return string(e) }
func (unfit) RedisError()     {}

// denials are what versions from 6.2 to 8 say of a permission that is missing, outside of scripts and in them.
var denials = []string{"NOPERM", "ser executing the script can't", "ACL failure in script"}

// explainDenial adds what to do to the errors that an operator can mend. commands are those that failed, if they are known.
func (d *redlock) explainDenial(err error, commands []string) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	switch {
	case strings.Contains(text, "READONLY"):
		return fmt.Errorf("the server is a replica, and locks are made on its master: %w", err)
	case slices.ContainsFunc(denials, func(words string) bool { return strings.Contains(text, words) }):
		if len(commands) == 0 {
			commands = []string{"see docs/redlock.md for the commands"}
		}
		return redisconn.Denied(err, fmt.Sprintf("~%s* &%s %s", d.prefix, channelOf(d.prefix, "*"), strings.Join(commands, " ")))
	}
	return err
}
