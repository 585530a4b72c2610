package redlockbackend

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/internal/redisclient"
)

// What the servers must be like is found out when a Locker is opened, and not with the first lock that is lost.

// openLimit bounds all that opening asks the servers.
const openLimit = 10 * time.Second

// open checks all servers side by side. One that can't be reached is one of a minority that may fail; one that is reached
// and doesn't fit is a mistake.
func (d *redlock) open(ctx context.Context) error {
	runs := make([]string, len(d.nodes))
	if err := d.eachNode(ctx, func(ctx context.Context, i int, n *node) (err error) {
		runs[i], err = d.check(ctx, n)
		return err
	}); err != nil {
		return err
	}
	for i, run := range runs {
		if same := slices.Index(runs, run); run != "" && same < i {
			return fmt.Errorf("%w: %s and %s are one server: they have to be independent of each other", locker.ErrOption,
				d.nodes[same].name(), d.nodes[i].name())
		}
	}
	return d.enter(ctx)
}

// eachNode returns the errors of servers that don't fit, or else, if no majority is left, of those that can't be reached.
func (d *redlock) eachNode(ctx context.Context, check func(context.Context, int, *node) error) error {
	unfit, away := make(map[int]error), make(map[int]error)
	var mu sync.Mutex
	var all sync.WaitGroup
	for i, n := range d.nodes {
		all.Add(1)
		d.spawn(func() {
			defer all.Done()
			err := check(ctx, i, n)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
			case unreachable(err):
				away[i] = redisclient.Overdue(err)
			default:
				unfit[i] = err
			}
		})
	}
	all.Wait()
	switch {
	case len(unfit) > 0:
		return d.failure("a server doesn't fit", unfit)
	case len(d.nodes)-len(away) < majority(len(d.nodes)):
		return hint(d.failure(fmt.Sprintf("%d of %d servers can be reached, and %d must", len(d.nodes)-len(away), len(d.nodes),
			majority(len(d.nodes))), away))
	}
	return nil
}

// unreachable reports whether err is that of a server which doesn't answer, or is about to start.
func unreachable(err error) bool {
	var reply redis.Error
	return !errors.Is(err, locker.ErrOption) && !errors.Is(err, errors.ErrUnsupported) &&
		(!errors.As(err, &reply) || redisclient.Says(err, "LOADING", "BUSY", "max number of clients"))
}

// check looks at one server, and returns which process it is.
func (d *redlock) check(ctx context.Context, n *node) (run string, err error) {
	ctx, cancel := context.WithTimeout(ctx, max(3*d.nodeTimeout, time.Second))
	defer cancel()
	var f redisclient.Facts
	if left := n.do(ctx, func() {
		if err = redisclient.Ping(ctx, n.client); err == nil {
			f, err = redisclient.AskFacts(ctx, n.client)
		}
	}); left != nil {
		return "", left
	}
	if err == nil {
		err = checkFacts(f, d.allowEviction)
	}
	if err == nil {
		err = d.subscribe(ctx, n)
	}
	if err == nil {
		err = d.probe(ctx, n)
	}
	return f.Run, err
}

// checkFacts judges what a server says of itself.
func checkFacts(f redisclient.Facts, allowEviction bool) error {
	if err := f.CheckVersion(); err != nil {
		return err
	}
	switch {
	case f.Mode == "sentinel":
		return fmt.Errorf("%w: this is a Sentinel, which has no locks", locker.ErrOption)
	case f.Mode == "cluster":
		return fmt.Errorf("%w: this is one server of a Redis Cluster; Redlock is for servers that are independent", locker.ErrOption)
	case f.Run == "":
		return fmt.Errorf("%w: INFO server has no run_id, by which the server knows that it was restarted", errors.ErrUnsupported)
	case !allowEviction:
		return f.CheckEviction()
	}
	return nil
}

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

// probe tries the commands of the scripts: one that lacks a permission in the middle would leave half of its work behind.
func (d *redlock) probe(ctx context.Context, n *node) error {
	key := lockKey(d.prefix, "probe "+driver.NewOwner())
	for _, how := range [][2]string{{"evalsha", probeScript.digest}, {"eval", probeScript.text}} { // both are needed
		cmd := &command{redis.NewCmd(ctx, how[0], how[1], 2, key, memoryKey(d.prefix), d.turns.channel)}
		if err := n.do(ctx, func() { _ = n.client.Process(ctx, cmd) }); err != nil {
			return err
		}
		failed, err := cmd.Slice()
		if err != nil && (how[0] == "eval" || !redisclient.Says(err, "NOSCRIPT")) {
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
		return permission(err, fmt.Sprintf("~%s* &%s %s", d.prefix, channelOf(d.prefix, "*"), strings.Join(commands, " ")))
	}
	return err
}

func permission(err error, missing string) error {
	return fmt.Errorf("a permission is missing (ACL: %s): %w", missing, err)
}

// hint adds what a connection on which nothing makes sense may mean.
func hint(err error) error {
	if redisclient.Silent(err) && !errors.Is(err, driver.ErrNotSent) || errors.Is(err, io.EOF) || errors.As(err, new(tls.RecordHeaderError)) {
		return fmt.Errorf("%w; a server that speaks TLS needs redlocks:// or rediss://, one that doesn't redlock:// or redis://", err)
	}
	return err
}

// enter has the servers say whether they take part. Those that don't begin to wait; that is no error, and Acquire says so.
// They are looked at before: a Locker that is refused by one must not have set what another goes by from then on.
func (d *redlock) enter(ctx context.Context) error {
	replies, err := d.enterAll(ctx, "look")
	if err != nil {
		return err
	}
	mode := ""
	if d.newCluster {
		fresh, err := d.isNew(replies)
		if err != nil {
			return err
		}
		if fresh {
			mode = "waive"
		}
	}
	_, err = d.enterAll(ctx, mode)
	return err
}

// isNew reports whether no server knows anything.
func (d *redlock) isNew(replies []reply) (bool, error) {
	away := make(map[int]error)
	for i, r := range replies {
		switch {
		case r.err != nil:
			away[i] = r.err
		case r.verdict != unknown:
			return false, nil
		}
	}
	if len(away) > 0 {
		return false, d.failure("all servers must be there when a cluster is new", away)
	}
	return true, nil
}

func (d *redlock) enterAll(ctx context.Context, mode string) ([]reply, error) {
	replies := make([]reply, len(d.nodes))
	err := d.eachNode(ctx, func(ctx context.Context, i int, n *node) error {
		ctx, cancel := context.WithTimeout(ctx, max(d.nodeTimeout, time.Second))
		defer cancel()
		answers, err := n.call(ctx, &call{script: enterScript, memory: n.memory, max: n.max, mode: mode})
		if err != nil {
			replies[i].err = err
			return err
		}
		if replies[i] = answers[0]; answers[0].verdict == differs {
			return differing(answers[0].max)
		}
		return nil
	})
	return replies, err
}

func differing(known time.Duration) error {
	return fmt.Errorf("%w: the longest TTL on this server is %v; all who use it say the same (WithMaxTTL; in a URL: max_ttl)",
		locker.ErrOption, known)
}
