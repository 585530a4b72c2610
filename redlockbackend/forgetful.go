package redlockbackend

import (
	"context"
	"fmt"
	"time"

	"github.com/fencedlock/locker"
)

// What the servers remember is looked at last, when it is known that they fit.

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
		answers, err := n.call(ctx, &call{script: enterScript, mode: mode})
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
