package redisbackend

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/internal/redisconn"
)

// A script that lacks a permission in the middle would leave half of its work behind. So when a Locker is opened, each
// command that the scripts need is tried on keys of the prefix, and so is the subscription.

// probe tries the commands of the scripts. channel is empty where nothing is pushed.
func (s *server) probe(ctx context.Context, prefix, channel string) error {
	nobody := driver.NewOwner()
	r := request{script: probeScript, key: lockKey(prefix, "probe "+nobody), owner: nobody, ttl: time.Second, channel: channel}
	for _, whole := range []bool{false, true} { // EVALSHA, then EVAL: both are needed
		v := s.exchange(ctx, []request{r}, []int{0}, whole)[0]
		if v.err != nil && (whole || !redisconn.Says(v.err, "NOSCRIPT")) {
			return explain(v.err, prefix)
		}
		if err := probed(v.list, prefix); err != nil {
			return err
		}
	}
	return nil
}

// probed makes one error of what the probe returns: the commands that failed, each followed by its error.
func probed(failed []any, prefix string) error {
	var commands []string
	var first error
	for pair := range slices.Chunk(failed, 2) {
		commands = append(commands, "+"+strings.ToLower(fmt.Sprint(pair[0])))
		if first == nil && len(pair) == 2 {
			first = errors.New(fmt.Sprint(pair[1]))
		}
	}
	if first == nil {
		return nil
	}
	slices.Sort(commands)
	return explain(first, prefix, slices.Compact(commands)...)
}

// denials are what versions from 6.2 to 8 say of a permission that is missing, outside of scripts and in them.
var denials = []string{"NOPERM", "ser executing the script can't", "ACL failure in script"}

// explain adds what to do to the errors that an operator can mend. commands are those that failed, if they are known.
func explain(err error, prefix string, commands ...string) error {
	text := err.Error()
	switch {
	case strings.Contains(text, "READONLY"):
		return fmt.Errorf("the server is a replica, and locks are made on its master: %w", err)
	case slices.ContainsFunc(denials, func(words string) bool { return strings.Contains(text, words) }):
		if len(commands) == 0 {
			commands = []string{"see docs/redis.md for the commands"}
		}
		return redisconn.Denied(err, fmt.Sprintf("~%s* &%s %s", prefix, channelOf(prefix, "*"), strings.Join(commands, " ")))
	}
	return err
}

// hint adds what a connection on which nothing makes sense may mean.
func hint(err error) error {
	if redisconn.Silent(err) || errors.Is(err, io.EOF) || errors.As(err, new(tls.RecordHeaderError)) {
		return fmt.Errorf("%w; a server that speaks TLS needs rediss:// or valkeys://, one that doesn't redis:// or valkey://", err)
	}
	return err
}

// hears reports whether a subscription made here is seen by the server that carries the scripts out. It isn't where the
// client subscribes on a replica. An error says that there can be none.
func (s *server) hears(ctx context.Context, prefix, channel string) (bool, error) {
	var seen map[string]int64
	var err error
	left := s.call(ctx, func() {
		pubsub := s.client.Subscribe(ctx, channel)
		defer pubsub.Close()
		if err = confirm(ctx, pubsub); err == nil {
			seen, err = s.client.PubSubNumSub(ctx, channel).Result()
		}
	})
	if left != nil {
		return false, left
	}
	if err != nil {
		return false, explain(err, prefix)
	}
	return seen[channel] > 0, nil
}

// confirm waits for a subscription to stand.
func confirm(ctx context.Context, pubsub *redis.PubSub) error {
	limit := maxLimit
	if until, ok := ctx.Deadline(); ok {
		limit = min(limit, max(time.Until(until), time.Millisecond))
	}
	_, err := pubsub.ReceiveTimeout(ctx, limit)
	return err
}
