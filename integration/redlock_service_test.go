//go:build unix

package integration

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance"
)

// redlockService is several servers that know nothing of each other, and what can be done to them.
type redlockService struct {
	image string
	nodes []*redisNode
	url   string
}

// The TTL of leases that don't ask for one is what the suite wants at least. It is the longest too, so that a server that has
// forgotten something doesn't stay away for longer than a case can wait.
const redlockTTL = 10 * time.Second

// startRedlock starts five servers, which never had a lock.
func startRedlock(ctx context.Context, image string) (*redlockService, error) {
	return startRedlockOf(ctx, image, 5)
}

func startRedlockOf(ctx context.Context, image string, n int) (*redlockService, error) {
	return startRedlockFor(ctx, image, n, redlockTTL)
}

// startRedlockFor starts n servers for leases with a TTL of up to longest.
func startRedlockFor(ctx context.Context, image string, n int, longest time.Duration) (*redlockService, error) {
	ports, err := freePorts(n)
	if err != nil {
		return nil, err
	}
	s := &redlockService{image: image}
	for _, port := range ports {
		node, err := startRedisNode(ctx, image, port, nil, redisConfig(port))
		if err != nil {
			return nil, err
		}
		s.nodes = append(s.nodes, node)
	}
	s.url = redlockURL(s.nodes, "ttl", redlockTTL.String(), "max_ttl", longest.String())
	if err := s.wait(ctx); err != nil {
		return nil, err
	}
	return s, s.waive(ctx, s.url)
}

func redlockURL(nodes []*redisNode, params ...string) string {
	var hosts []string
	for _, n := range nodes {
		hosts = append(hosts, n.addr)
	}
	query := make(url.Values)
	for pair := range slices.Chunk(params, 2) {
		query.Set(pair[0], pair[1])
	}
	u := url.URL{Scheme: "redlock", User: url.UserPassword("", redisPassword), Host: strings.Join(hosts, ","), RawQuery: query.Encode()}
	return u.String()
}

// waive says that there never was a lock with the prefix of a URL.
func (s *redlockService) waive(ctx context.Context, rawURL string) error {
	l, err := locker.Open(ctx, changed(rawURL, func(u *url.URL) {
		query := u.Query()
		query.Set("new_cluster", "true")
		u.RawQuery = query.Encode()
	}))
	if err != nil {
		return err
	}
	return l.Close()
}

// with is the service's URL with more parameters.
func (s *redlockService) with(params ...string) string {
	return changed(s.url, func(u *url.URL) {
		query := u.Query()
		for pair := range slices.Chunk(params, 2) {
			query.Set(pair[0], pair[1])
		}
		u.RawQuery = query.Encode()
	})
}

func (s *redlockService) open(t conformance.T) locker.Locker { return openURL(t, s.url) }

// wait returns when all servers answer.
func (s *redlockService) wait(ctx context.Context) error {
	return until(ctx, func(ctx context.Context) error {
		return s.each(ctx, func(ctx context.Context, n *redisNode) error { return n.admin.Ping(ctx).Err() })
	})
}

func (s *redlockService) each(ctx context.Context, f func(context.Context, *redisNode) error) error {
	for _, n := range s.nodes {
		if err := f(ctx, n); err != nil {
			return fmt.Errorf("node %s: %w", n.addr, err)
		}
	}
	return nil
}

// all has every server carry a command out.
func (s *redlockService) all(t conformance.T, args ...any) {
	t.Helper()
	must(t, func(ctx context.Context) error {
		return s.each(ctx, func(ctx context.Context, n *redisNode) error { return n.admin.Do(ctx, args...).Err() })
	})
}

func ids(nodes []*redisNode) (ids []string) {
	for _, n := range nodes {
		ids = append(ids, n.id)
	}
	return ids
}

func (s *redlockService) pause(t conformance.T)  { docker(t, ids(s.nodes), "pause") }
func (s *redlockService) resume(t conformance.T) { docker(t, ids(s.nodes), "unpause") }

// down stops all servers in good order.
func (s *redlockService) down(t conformance.T) { docker(t, ids(s.nodes), "stop") }
func (s *redlockService) up(t conformance.T)   { s.start(t, s.nodes) }

func (s *redlockService) start(t conformance.T, nodes []*redisNode) {
	t.Helper()
	docker(t, ids(nodes), "start")
	must(t, s.wait)
}

// restart is a crash of all servers, and a start on what they have written.
func (s *redlockService) restart(t conformance.T) { s.restartSome(t, s.nodes) }

func (s *redlockService) restartSome(t conformance.T, nodes []*redisNode) {
	t.Helper()
	docker(t, ids(nodes), "kill")
	s.start(t, nodes)
}

func (s *redlockService) wipe(t conformance.T) {
	s.all(t, "flushall")
	s.restart(t)
}

// redlockMemory is where docs/redlock.md says that a server remembers what it has to.
const redlockMemory = "redlock:memory"

// redlockIdentity is what the note begins with that a server makes of its data in database 0.
func (n *redisNode) redlockIdentity(ctx context.Context) (string, error) {
	run, err := n.info(ctx, "server", "run_id")
	if err != nil {
		return "", err
	}
	history, err := n.info(ctx, "replication", "master_replid")
	return run + " " + history + " 0", err
}

// clear removes all that cases have left, and nothing that the servers need to take part. What a server may have forgotten is over as well:
// or for a minute after a loss acquisitions would take a second round trip, and cases that count requests would depend on those before.
func (s *redlockService) clear(t conformance.T) {
	must(t, func(ctx context.Context) error {
		return s.each(ctx, func(ctx context.Context, n *redisNode) error {
			keys, err := n.admin.Keys(ctx, "*").Result()
			keys = slices.DeleteFunc(keys, func(key string) bool { return key == redlockMemory })
			if err == nil && len(keys) > 0 {
				err = n.admin.Del(ctx, keys...).Err()
			}
			if err != nil {
				return err
			}
			note, err := n.admin.Get(ctx, redlockMemory).Result()
			if words := strings.Fields(note); err == nil && len(words) == 5 {
				words[3] = "0"
				return n.admin.Set(ctx, redlockMemory, strings.Join(words, " "), 0).Err()
			}
			if errors.Is(err, redis.Nil) {
				return nil
			}
			return err
		})
	})
}

// redlockKey is where docs/redlock.md says that a lock is.
func redlockKey(name string) string { return "redlock:{" + name + "}" }

func (s *redlockService) residue(t conformance.T) string {
	t.Helper()
	var left []string
	must(t, func(ctx context.Context) error {
		return s.each(ctx, func(ctx context.Context, n *redisNode) error {
			keys, err := n.admin.Keys(ctx, "*").Result()
			for _, key := range keys {
				if key != redlockMemory && !harmless.MatchString(key) {
					left = append(left, n.addr+" "+key)
				}
			}
			return err
		})
	})
	return strings.Join(left, ", ")
}

func (s *redlockService) remove(t conformance.T, name string) {
	t.Helper()
	must(t, func(ctx context.Context) error {
		deleted := int64(0)
		err := s.each(ctx, func(ctx context.Context, node *redisNode) error {
			n, err := node.admin.Del(ctx, redlockKey(name)).Result()
			deleted += n
			return err
		})
		if err == nil && deleted == 0 {
			err = fmt.Errorf("nobody holds %q", name)
		}
		return err
	})
}

// waiters are those that a majority of the servers know of.
func (s *redlockService) waiters(t conformance.T, name string) int {
	t.Helper()
	var counts []int
	must(t, func(ctx context.Context) error {
		counts = nil
		return s.each(ctx, func(ctx context.Context, node *redisNode) error {
			n, err := node.admin.ZCard(ctx, redlockKey(name)+":waiters").Result()
			counts = append(counts, int(n))
			return err
		})
	})
	slices.Sort(counts)
	return counts[len(counts)/2]
}

// requests counts what Lockers send, to all servers together.
func (s *redlockService) requests(t conformance.T) (n int64) {
	t.Helper()
	must(t, func(ctx context.Context) error {
		return s.each(ctx, func(ctx context.Context, node *redisNode) error {
			text, err := node.admin.Info(ctx, "commandstats").Result()
			n += calls(text, "eval", "evalsha", "subscribe", "unsubscribe")
			return err
		})
	})
	return n
}

// holders counts the servers on which a lock is held, by owner.
func (s *redlockService) holders(t conformance.T, name string) map[string]int {
	t.Helper()
	owners := make(map[string]int)
	must(t, func(ctx context.Context) error {
		return s.each(ctx, func(ctx context.Context, node *redisNode) error {
			value, err := node.admin.Get(ctx, redlockKey(name)).Result()
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

// calls adds up how often a server has carried some commands out, as it says in INFO commandstats.
func calls(commandstats string, commands ...string) (n int64) {
	stats := infoFields(commandstats)
	for _, command := range commands {
		count, _, _ := strings.Cut(strings.TrimPrefix(stats["cmdstat_"+command], "calls="), ",")
		if calls, err := strconv.ParseInt(count, 10, 64); err == nil {
			n += calls
		}
	}
	return n
}
