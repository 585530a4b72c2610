//go:build unix

package redlock

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/integration/internal/itest"
)

func TestList(t *testing.T) {
	s := Servers(t)
	itest.List(t, itest.ListTarget{
		Open:     func() locker.Locker { return s.Open(t) },
		Names:    true,
		TTL:      10 * time.Second, // the longest there
		Requests: func() int64 { return s.requests(t) },
		ByHand:   s.readAll,
	})
}

// readAll scans each server for the locks of this test and reads the value and the expiry of each.
// It returns how many locks the first server has. Other tests leave keys of other types.
func (s *Service) readAll(ctx context.Context) (locks int, err error) {
	for i, node := range s.Nodes {
		n := 0
		for cursor := uint64(0); ; {
			keys, next, err := node.Admin.Scan(ctx, cursor, redlockKey("testlist-*"), 1000).Result()
			if err != nil {
				return 0, err
			}
			pipe := node.Admin.Pipeline()
			for _, key := range keys {
				if strings.HasSuffix(key, "}") {
					pipe.Get(ctx, key)
					pipe.PTTL(ctx, key)
					n++
				}
			}
			if _, err := pipe.Exec(ctx); err != nil && len(keys) > 0 {
				return 0, err
			}
			if cursor = next; cursor == 0 {
				break
			}
		}
		if i == 0 {
			locks = n
		}
	}
	return locks, nil
}
