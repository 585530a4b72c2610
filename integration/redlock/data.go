//go:build unix

package redlock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/fencedlock/locker/conformance"
	"github.com/fencedlock/locker/integration/internal/itest"
	redistest "github.com/fencedlock/locker/integration/redis"
)

// What the servers have of locks. Tests read and remove it directly, without a Locker.

// redlockMemory is the key of a server's memory, as docs/redlock.md documents it.
const redlockMemory = "redlock:memory"

// isMemory reports whether a key is a server's memory, under any prefix: keys of locks end in braces
// or in a word after braces.
func isMemory(key string) bool {
	return strings.HasSuffix(key, "memory") && !strings.Contains(key, "{")
}

// redlockKey returns the key of a lock, as docs/redlock.md documents it.
func redlockKey(name string) string { return "redlock:{" + name + "}" }

// redlockIdentity returns the beginning of the note that a server keeps about its data in database
// 0.
func redlockIdentity(ctx context.Context, n *redistest.Node) (string, error) {
	history, err := n.Info(ctx, "replication", "master_replid")
	return history + " 0", err
}

// clear removes everything that cases have left, and nothing that the servers need to take part. It
// also ends the time in which a server may have forgotten leases. Otherwise acquisitions would need
// a second round trip for a minute after a loss, and cases that count requests would depend on the
// cases before them.
func (s *Service) clear(t conformance.T) {
	itest.Must(t, func(ctx context.Context) error {
		return s.each(ctx, func(ctx context.Context, n *redistest.Node) error {
			keys, err := n.Admin.Keys(ctx, "*").Result()
			keys = slices.DeleteFunc(keys, func(key string) bool { return key == redlockMemory })
			if err == nil && len(keys) > 0 {
				err = n.Admin.Del(ctx, keys...).Err()
			}
			if err != nil {
				return err
			}
			note, err := n.Admin.Get(ctx, redlockMemory).Result()
			if words := strings.Fields(note); err == nil && len(words) == 4 {
				words[2] = "0"
				return n.Admin.Set(ctx, redlockMemory, strings.Join(words, " "), 0).Err()
			}
			if errors.Is(err, redis.Nil) {
				return nil
			}
			return err
		})
	})
}

func (s *Service) residue(t conformance.T) string {
	t.Helper()
	var left []string
	itest.Must(t, func(ctx context.Context) error {
		return s.each(ctx, func(ctx context.Context, n *redistest.Node) error {
			keys, err := n.Admin.Keys(ctx, "*").Result()
			for _, key := range keys {
				if !isMemory(key) && !redistest.Harmless.MatchString(key) {
					left = append(left, n.Addr+" "+key)
				}
			}
			return err
		})
	})
	return strings.Join(left, ", ")
}

func (s *Service) remove(t conformance.T, name string) {
	t.Helper()
	itest.Must(t, func(ctx context.Context) error {
		deleted := int64(0)
		err := s.each(ctx, func(ctx context.Context, node *redistest.Node) error {
			n, err := node.Admin.Del(ctx, redlockKey(name)).Result()
			deleted += n
			return err
		})
		if err == nil && deleted == 0 {
			err = fmt.Errorf("nobody holds %q", name)
		}
		return err
	})
}

// Waiters returns the number of waiters that a majority of the servers know.
func (s *Service) Waiters(t conformance.T, name string) int {
	t.Helper()
	var counts []int
	itest.Must(t, func(ctx context.Context) error {
		counts = nil
		return s.each(ctx, func(ctx context.Context, node *redistest.Node) error {
			n, err := node.Admin.ZCard(ctx, redlockKey(name)+":waiters").Result()
			counts = append(counts, int(n))
			return err
		})
	})
	slices.Sort(counts)
	return counts[len(counts)/2]
}

// holders returns for each owner the number of servers on which it holds a lock.
func (s *Service) holders(t conformance.T, name string) map[string]int {
	t.Helper()
	owners := make(map[string]int)
	itest.Must(t, func(ctx context.Context) error {
		return s.each(ctx, func(ctx context.Context, node *redistest.Node) error {
			value, err := node.Admin.Get(ctx, redlockKey(name)).Result()
			if err == redis.Nil { //nolint:errorlint // as go-redis returns it
				return nil
			}
			owner, _, _ := strings.Cut(value, " ")
			owners[owner]++
			return err
		})
	})
	return owners
}
