package leader

import (
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"time"

	"github.com/fencedlock/locker"
)

// Leader is who leads, as the service says.
type Leader struct {
	Number   locker.Token // of the term; 0: nobody leads, or something that isn't of this library holds the lock
	Identity string       // what the leader says of itself, see WithIdentity
	Since    time.Time    // when it was elected, by a clock of the service; zero where the service doesn't know
}

// Current asks the service who leads. The answer may be old when it arrives: use it to find the leader, and
// not to decide whether this process leads. ctx covers the call. The error is [locker.Inspect]'s, and
// matches [locker.ErrNoInspector] where the service can't tell.
func Current(ctx context.Context, l locker.Locker, name string) (Leader, error) {
	s, err := locker.Inspect(ctx, l, name, 0)
	if err != nil || s.Holder == nil {
		return Leader{}, err
	}
	return Leader{Number: s.Holder.Token, Identity: s.Holder.Holder, Since: s.Holder.Since}, nil
}

// defaultInterval is a third of the TTL that most backends have by default.
const defaultInterval = 10 * time.Second

// Watch yields who leads now, and then each change that it sees, until ctx ends.
//
//	for who, err := range leader.Watch(ctx, l, "controllers/billing", 0) {
//		if err != nil {
//			log.Print(err) // it goes on
//			continue
//		}
//		proxyTo(who.Identity)
//	}
//
// It asks the service every interval, or up to a quarter earlier; 0 is 10s. So it sees each leader that
// leads for longer than interval and an answer of the service. An error comes with a zero Leader, each time;
// the iteration goes on unless no wait can change the error, as with [Run], or the service can't tell who leads
// ([locker.ErrNoInspector]). A negative interval is such an error, which matches [locker.ErrOption].
func Watch(ctx context.Context, l locker.Locker, name string, interval time.Duration) iter.Seq2[Leader, error] {
	return func(yield func(Leader, error) bool) {
		switch {
		case interval < 0:
			yield(Leader{}, fmt.Errorf("leader: %w: interval of %v: want a time, such as 10s, or 0", locker.ErrOption, interval))
			return
		case interval == 0:
			interval = defaultInterval
		}
		var last Leader
		for first := true; ctx.Err() == nil; sleep(ctx, interval-rand.N(interval/4+1)) {
			now, err := Current(ctx, l, name)
			switch {
			case ctx.Err() != nil:
				return
			case err != nil:
				if !yield(Leader{}, err) || isPermanent(err) {
					return
				}
			case first || now.Number != last.Number || now.Identity != last.Identity:
				first, last = false, now
				if !yield(now, nil) {
					return
				}
			}
		}
	}
}
