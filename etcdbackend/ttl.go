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

// attemptLimit is what one member has for one request, before the next is asked. Of n members a
// minority may be silent, so a member of the majority must have its turn within patience, and one
// more attempt must fit in as well.
func attemptLimit(ttl time.Duration, n int) time.Duration {
	return min(ttl/6, patience/time.Duration(n/2+2))
}

const (
	maxAttempt = 2500 * time.Millisecond // of one request, when a Locker is opened and where no TTL matters

	// patience is what all members have together, for all that an acquisition asks, and for a keepalive or a Grant. A renewal
	// that waits for one has less, and leaves it to the next.
	patience = 2 * maxAttempt

	grace = 250 * time.Millisecond // for the reason why a keepalive or a Grant, which an acquisition waits for, has failed
)
