package redlockbackend

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver/kit"
	"github.com/fencedlock/locker/internal/redisconn"
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
				away[i] = redisconn.Overdue(err)
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
		err := d.failure(fmt.Sprintf("%d of %d servers can be reached, and %d must", len(d.nodes)-len(away), len(d.nodes),
			majority(len(d.nodes))), away)
		for i := range d.nodes {
			if cause, ok := away[i]; !ok || errors.As(cause, new(redis.Error)) {
				return err // where one answers, the others are simply away
			}
		}
		return d.hint(err, away)
	}
	return nil
}

// unreachable reports whether err is that of a server which doesn't answer, or is about to start.
func unreachable(err error) bool {
	var reply redis.Error
	return !errors.Is(err, locker.ErrOption) && !errors.Is(err, errors.ErrUnsupported) &&
		(!errors.As(err, &reply) || redisconn.Says(err, "LOADING", "BUSY", "max number of clients"))
}

// check looks at one server, and returns which process it is.
func (d *redlock) check(ctx context.Context, n *node) (run string, err error) {
	ctx, cancel := context.WithTimeout(ctx, max(3*d.nodeTimeout, time.Second))
	defer cancel()
	var f redisconn.Facts
	if left := n.do(ctx, func() {
		if err = redisconn.Ping(ctx, n.client); err == nil {
			f, err = redisconn.AskFacts(ctx, n.client)
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
func checkFacts(f redisconn.Facts, allowEviction bool) error {
	if err := f.CheckVersion(); err != nil {
		return err
	}
	switch {
	case f.Mode == "sentinel":
		return fmt.Errorf("%w: this is a Sentinel, which has no locks", locker.ErrOption)
	case f.Mode == "cluster":
		return fmt.Errorf("%w: this is one server of a Redis Cluster; Redlock is for servers that are independent", locker.ErrOption)
	case f.Run == "" || f.History == "" || f.Role == "":
		return fmt.Errorf("%w: INFO has no run_id, role or master_replid, by which the server knows that it has lost data",
			errors.ErrUnsupported)
	}
	err := f.CheckRole()
	if err == nil && !allowEviction {
		err = f.CheckEviction()
	}
	return err
}

// hint adds to err what it may mean if no server answers: that TLS is spoken on one side alone. A server with TLS ends a
// connection without. One without TLS waits for the rest of a command, or ends the connection as well.
func (d *redlock) hint(err error, away map[int]error) error {
	for i, n := range d.nodes {
		ended := errors.Is(away[i], io.EOF) || errors.Is(away[i], syscall.ECONNRESET)
		switch speaksTLS := n.client.Options().TLSConfig != nil; {
		case !speaksTLS && ended:
			return fmt.Errorf("%w; a server that speaks TLS needs redlocks:// or rediss://", err)
		case speaksTLS && (ended || errors.As(away[i], new(tls.RecordHeaderError)) || connectedInSilence(away[i])):
			return fmt.Errorf("%w; a server that doesn't speak TLS needs redlock:// or redis://", err)
		}
	}
	return err
}

// connectedInSilence reports whether nothing was heard, on a connection that may have been made.
func connectedInSilence(err error) bool {
	return redisconn.Silent(err) && !errors.Is(err, kit.ErrNotSent)
}
