package etcdbackend

import (
	"fmt"
	"time"

	"github.com/fencedlock/locker"
)

// etcd counts in seconds. The allowance for clocks, and a try or two to renew, need more than one of them. Above 300 s
// etcd's leader begins to write checkpoints of what is left of a lease, and a new leader goes on from the last of them
// instead of the whole TTL: earlier than a holder can know.
const (
	minTTL = 2 * time.Second
	maxTTL = 300 * time.Second
)

func checkTTL(ttl time.Duration) error {
	switch {
	case ttl < minTTL:
		return fmt.Errorf("%w: TTL %v is shorter than %v", locker.ErrOption, ttl, minTTL)
	case ttl > maxTTL:
		return fmt.Errorf("%w: TTL %v is longer than %v", locker.ErrOption, ttl, maxTTL)
	}
	return nil
}

// seconds rounds up.
func seconds(ttl time.Duration) int64 { return int64((ttl + time.Second - 1) / time.Second) }

// attemptLimit is what one member has for one request, before the next is asked.
func attemptLimit(ttl time.Duration) time.Duration { return min(ttl/6, maxAttempt) }

const (
	maxAttempt = 2500 * time.Millisecond

	// patience is what all members have together, for all that an acquisition asks, and for a keepalive or a Grant. A renewal
	// that waits for one has less, and leaves it to the next.
	patience = 2 * maxAttempt
)
