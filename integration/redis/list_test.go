//go:build unix

package redis

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/integration/internal/itest"
)

func TestList(t *testing.T) {
	s := Standalone(t)
	node := s.Nodes[0].Admin
	itest.List(t, itest.ListTarget{
		Open:     func() locker.Locker { return s.Open(t) },
		Names:    true,
		Requests: func() int64 { return commands(t, node, "scan", "evalsha", "evalsha_ro") },
		ByHand:   func(ctx context.Context) (int, error) { return readAll(ctx, node) },
	})
}

// commands counts calls of commands.
func commands(t *testing.T, node *redis.Client, names ...string) (n int64) {
	t.Helper()
	text, err := node.Info(t.Context(), "commandstats").Result()
	if err != nil {
		t.Fatal(err)
	}
	stats := InfoFields(text)
	for _, name := range names {
		calls, _, _ := strings.Cut(strings.TrimPrefix(stats["cmdstat_"+name], "calls="), ",")
		count, _ := strconv.ParseInt(calls, 10, 64)
		n += count
	}
	return n
}

// readAll scans for the locks of this test and reads value and expiry of each. Other tests leave keys
// of other types.
func readAll(ctx context.Context, node *redis.Client) (n int, err error) {
	var keys []string
	for cursor := uint64(0); ; {
		var page []string
		if page, cursor, err = node.Scan(ctx, cursor, "locker:{testlist-*}", 1000).Result(); err != nil {
			return 0, err
		}
		for _, key := range page {
			if strings.HasSuffix(key, "}") {
				keys = append(keys, key)
			}
		}
		if cursor == 0 {
			break
		}
	}
	for some := range slices.Chunk(keys, 500) {
		_, err := node.Pipelined(ctx, func(p redis.Pipeliner) error {
			for _, key := range some {
				p.Get(ctx, key)
				p.PTTL(ctx, key)
			}
			return nil
		})
		if err != nil {
			return 0, err
		}
		n += len(some)
	}
	return n, nil
}
