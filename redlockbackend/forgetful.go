package redlockbackend

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fencedlock/locker"
)

// Servers that may have forgotten leases take no part for a while. What they remember is checked
// last when a Locker is opened, when it is known that they fit.

var errForgetful = errors.New("the server may have forgotten leases, and grants nothing until they are over")

// join asks the servers whether they take part. A server that doesn't starts to wait. That is no
// error here: Acquire says so. The servers are only looked at first, because a Locker that one of
// them refuses must not have set the longest TTL of another.
func (d *redlock) join(ctx context.Context) error {
	replies, err := d.askAll(ctx, "look")
	if err != nil {
		return err
	}
	mode := ""
	if d.newCluster {
		isNew, err := d.isNew(replies)
		if err != nil {
			return err
		}
		if isNew {
			mode = "waive"
		}
	}
	_, err = d.askAll(ctx, mode)
	return err
}

// isNew reports whether no server remembers anything.
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

func (d *redlock) askAll(ctx context.Context, mode string) ([]reply, error) {
	replies := make([]reply, len(d.nodes))
	err := d.eachNode(ctx, func(ctx context.Context, i int, n *node) error {
		ctx, cancel := context.WithTimeout(ctx, max(d.serverTimeout, time.Second))
		defer cancel()
		answers, err := n.call(ctx, &call{script: enterScript, channel: "", mode: mode})
		if err != nil {
			replies[i].err = err
			return err
		}
		if replies[i] = answers[0]; answers[0].verdict == differs {
			return wrongMaxTTL(answers[0].max)
		}
		return nil
	})
	return replies, err
}

func wrongMaxTTL(known time.Duration) error {
	return fmt.Errorf("%w: invalid longest TTL: want %v, as all Lockers of this server have (WithMaxTTL; in a URL: max_ttl)",
		locker.ErrOption, known)
}
