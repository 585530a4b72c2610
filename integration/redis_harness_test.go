//go:build unix

package integration

import (
	"context"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance"
	"github.com/fencedlock/locker/integration/proxy"
	"github.com/fencedlock/locker/redisbackend"
)

// The services of a run, each started when the first test wants it.
var (
	redisStandalone = lazily("redis", startRedis)
	redisSentinel   = lazily("redis", startRedisSentinel)
	redisCluster    = lazily("redis", startRedisCluster)
)

// redisHarness makes the suite's harness of a service.
func redisHarness(service func(*testing.T) *redisService) func(*testing.T) conformance.Harness {
	return func(t *testing.T) conformance.Harness {
		s := service(t)
		h := conformance.Harness{
			Open:   s.open,
			TTL:    shortTTL,
			Strict: true,
			Pack:   s.pack(),
			Setup: func(t conformance.T, _ *conformance.Harness) {
				s.flush(t) // what a case that failed has left is not the next one's
			},
			Hooks: conformance.Hooks{
				Linked:   s.linked,
				Process:  startHolder(s.url),
				Pause:    s.pause,
				Resume:   s.resume,
				Down:     s.down,
				Up:       s.up,
				Restart:  s.restart,
				Wipe:     s.wipe,
				Remove:   s.remove,
				Requests: s.requests,
				Waiters:  s.waiters,
				Residue:  s.residue,
				Prefixed: func(t conformance.T, prefix string) locker.Locker { return openURL(t, s.with("prefix", prefix)) },
				Narrow:   func(t conformance.T) locker.Locker { return openURL(t, s.with("pool_size", "1")) },
				URL:      s.url,
				BadURLs:  s.badURLs(t),
				Secrets:  []string{redisPassword, "open-sesame"},
			},
		}
		if s.failover == nil {
			h.Absent = map[conformance.Hook]string{conformance.HookFailover: "the server has no replica"}
		} else {
			h.Failover = func(t conformance.T) { must(t, s.failover) }
		}
		if s.client.IsClusterMode {
			h.Waiters = nil // they poll: no server has a queue
		}
		return h
	}
}

func (s *redisService) open(t conformance.T) locker.Locker { return openURL(t, s.url) }

// with is the service's URL with one more parameter.
func (s *redisService) with(name, value string) string {
	return changed(s.url, func(u *url.URL) {
		query := u.Query()
		query.Set(name, value)
		u.RawQuery = query.Encode()
	})
}

// badURLs are mistakes in the service's URL.
func (s *redisService) badURLs(t *testing.T) map[string]string {
	free, err := freePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	elsewhere := func(host string) func(*url.URL) {
		return func(u *url.URL) {
			query := u.Query()
			query.Del("addr")
			u.Host, u.RawQuery = host, query.Encode()
		}
	}
	bad := map[string]string{
		"host":     changed(s.url, elsewhere("no-such-host.invalid:6379")),
		"port":     changed(s.url, elsewhere(local(free[0]))),
		"password": changed(s.url, func(u *url.URL) { u.User = url.UserPassword("", "open-sesame") }),
		"user":     changed(s.url, func(u *url.URL) { u.User = url.UserPassword("nobody", redisPassword) }),
		"TLS":      changed(s.url, func(u *url.URL) { u.Scheme = "rediss" }),
		"database": s.with("db", "99"),
	}
	if len(s.sentinels) > 0 {
		bad["master"] = s.with("master_name", "nobody")
		bad["server's password"] = s.with("password", "open-sesame")
		bad["Sentinel"] = changed(s.url, func(u *url.URL) { // taken for the server itself
			query := u.Query()
			for _, name := range []string{"master_name", "addr", "password"} {
				query.Del(name)
			}
			u.RawQuery = query.Encode()
		})
	}
	return bad
}

// linked gives the Locker a client whose connections go through a network of its own.
func (s *redisService) linked(t conformance.T) (locker.Locker, conformance.Link) {
	t.Helper()
	l, network := s.proxied(t)
	return l, network
}

func (s *redisService) proxied(t conformance.T) (locker.Locker, *proxy.Network) {
	t.Helper()
	network, err := proxy.New()
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(network.Close)
	return s.dialled(t, network.Dial), network
}

// dialled opens a Locker whose connections are made by dial.
func (s *redisService) dialled(t conformance.T, dial dialFunc) locker.Locker {
	t.Helper()
	options := s.client
	options.Dialer = dial
	client := redis.NewUniversalClient(&options)
	l, err := redisbackend.New(t.Context(), client)
	if err != nil {
		_ = client.Close()
		t.Fatalf("New = %v", err)
	}
	return withClient{l, client}
}

// key is where docs/redis.md says that a lock is.
func key(name string) string { return "locker:{" + name + "}" }

// harmless are keys that may stay: the counters of tokens, and what stops late requests.
var harmless = regexp.MustCompile(`}:(token|tomb:[0-9a-f]{32})$`)

func (s *redisService) residue(t conformance.T) string {
	t.Helper()
	var left []string
	must(t, func(ctx context.Context) error {
		return s.each(ctx, func(ctx context.Context, n *redisNode) error {
			keys, err := n.admin.Keys(ctx, "*").Result()
			left = append(left, slices.DeleteFunc(keys, harmless.MatchString)...)
			return err
		})
	})
	return strings.Join(left, ", ")
}

func (s *redisService) remove(t conformance.T, name string) {
	t.Helper()
	must(t, func(ctx context.Context) error {
		deleted := int64(0)
		err := s.where(ctx, func(ctx context.Context, node *redisNode) error {
			n, err := node.admin.Del(ctx, key(name)).Result()
			deleted += n
			return err
		})
		if err == nil && deleted == 0 {
			err = fmt.Errorf("nobody holds %q", name)
		}
		return err
	})
}

func (s *redisService) waiters(t conformance.T, name string) (n int) {
	t.Helper()
	must(t, func(ctx context.Context) error {
		return s.where(ctx, func(ctx context.Context, node *redisNode) error {
			waiting, err := node.admin.ZCard(ctx, key(name)+":queue").Result()
			n += int(waiting)
			return err
		})
	})
	return n
}

// requests counts what Lockers send, as opposed to what scripts call inside and servers send to each other.
func (s *redisService) requests(t conformance.T) (n int64) {
	t.Helper()
	must(t, func(ctx context.Context) error {
		return s.each(ctx, func(ctx context.Context, node *redisNode) error {
			text, err := node.admin.Info(ctx, "commandstats").Result()
			stats := infoFields(text)
			for _, command := range []string{"eval", "evalsha", "subscribe", "unsubscribe"} {
				calls, _, _ := strings.Cut(strings.TrimPrefix(stats["cmdstat_"+command], "calls="), ",")
				if count, err := strconv.ParseInt(calls, 10, 64); err == nil {
					n += count
				}
			}
			return err
		})
	})
	return n
}
