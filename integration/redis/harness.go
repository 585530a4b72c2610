//go:build unix

package redis

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
	"github.com/fencedlock/locker/conformance/proxy"
	"github.com/fencedlock/locker/integration/internal/itest"
	"github.com/fencedlock/locker/redisbackend"
)

// The services of a run, for tests that run in parallel. Each is started when a test wants it.
var (
	standalones = itest.LazyPool("redis", Start)
	sentinels   = itest.LazyPool("redis", startRedisSentinel)
	clusters    = itest.LazyPool("redis", startRedisCluster)
)

// The first service of each kind.
func Standalone(t *testing.T) *Service    { return standalones(t).First }
func redisSentinel(t *testing.T) *Service { return sentinels(t).First }
func redisCluster(t *testing.T) *Service  { return clusters(t).First }

func (s *Service) Open(t conformance.T) locker.Locker { return itest.OpenURL(t, s.URL) }

// with returns the service's URL with one more parameter.
func (s *Service) with(name, value string) string {
	return itest.Changed(s.URL, func(u *url.URL) {
		query := u.Query()
		query.Set(name, value)
		u.RawQuery = query.Encode()
	})
}

// badURLs returns URLs of the service that contain a mistake.
func (s *Service) badURLs(t conformance.T) map[string]string {
	t.Helper()
	free, err := itest.FreePorts(1)
	if err != nil {
		t.Fatalf("%v", err)
	}
	elsewhere := func(host string) func(*url.URL) {
		return func(u *url.URL) {
			query := u.Query()
			query.Del("addr")
			u.Host, u.RawQuery = host, query.Encode()
		}
	}
	bad := map[string]string{
		"host":     itest.Changed(s.URL, elsewhere("no-such-host.invalid:6379")),
		"port":     itest.Changed(s.URL, elsewhere(itest.LocalAddr(free[0]))),
		"password": itest.Changed(s.URL, func(u *url.URL) { u.User = url.UserPassword("", "open-sesame") }),
		"user":     itest.Changed(s.URL, func(u *url.URL) { u.User = url.UserPassword("nobody", Password) }),
		"TLS":      itest.Changed(s.URL, func(u *url.URL) { u.Scheme = "rediss" }),
		"database": s.with("db", "99"),
	}
	if len(s.sentinels) > 0 {
		bad["master"] = s.with("master_name", "nobody")
		bad["server's password"] = s.with("password", "open-sesame")
		bad["Sentinel"] = itest.Changed(s.URL, func(u *url.URL) { // taken for the server itself
			query := u.Query()
			for _, name := range []string{"master_name", "addr", "password"} {
				query.Del(name)
			}
			u.RawQuery = query.Encode()
		})
	}
	return bad
}

// oneServer reports whether a URL of the service makes a Locker that looks after its connections itself.
func (s *Service) oneServer() bool { return len(s.sentinels) == 0 && len(s.Nodes) == 1 }

// linked gives the Locker connections through a network of its own. The connections of one server are made
// by the Locker itself, with a URL, because only then it obeys contexts.
func (s *Service) linked(t conformance.T) (locker.Locker, conformance.Link) {
	t.Helper()
	network := proxy.Start(t)
	if !s.oneServer() {
		return s.Dialled(t, network.Dial), network
	}
	addr, err := network.Forward(s.Nodes[0].Addr)
	if err != nil {
		t.Fatalf("Forward = %v", err)
	}
	return itest.OpenURL(t, itest.Changed(s.URL, func(u *url.URL) { u.Host = addr })), network
}

// Dialled opens a Locker whose connections are made by dial.
func (s *Service) Dialled(t conformance.T, dial itest.DialFunc) locker.Locker {
	t.Helper()
	options := s.client
	options.Dialer = dial
	client := redis.NewUniversalClient(&options)
	l, err := redisbackend.New(t.Context(), client)
	if err != nil {
		_ = client.Close()
		t.Fatalf("New = %v", err)
	}
	return itest.WithClient{Locker: l, Client: client}
}

// key returns the key of a lock, as docs/redis.md documents it.
func key(name string) string { return "locker:{" + name + "}" }

// Harmless matches the keys that may remain: the counters of tokens, and the keys that stop late
// requests.
var Harmless = regexp.MustCompile(`}(:slot:[a-z0-9]+)?:(token|tomb:[0-9a-f]{32})$`)

func (s *Service) residue(t conformance.T) string {
	t.Helper()
	var left []string
	itest.Must(t, func(ctx context.Context) error {
		return s.each(ctx, func(ctx context.Context, n *Node) error {
			keys, err := n.Admin.Keys(ctx, "*").Result()
			left = append(left, slices.DeleteFunc(keys, Harmless.MatchString)...)
			return err
		})
	})
	return strings.Join(left, ", ")
}

func (s *Service) remove(t conformance.T, name string) {
	t.Helper()
	itest.Must(t, func(ctx context.Context) error {
		deleted := int64(0)
		err := s.where(ctx, func(ctx context.Context, node *Node) error {
			n, err := node.Admin.Del(ctx, key(name)).Result()
			deleted += n
			return err
		})
		if err == nil && deleted == 0 {
			err = fmt.Errorf("nobody holds %q", name)
		}
		return err
	})
}

func (s *Service) Waiters(t conformance.T, name string) (n int) {
	t.Helper()
	itest.Must(t, func(ctx context.Context) error {
		return s.where(ctx, func(ctx context.Context, node *Node) error {
			waiting, err := node.Admin.ZCard(ctx, key(name)+":queue").Result()
			n += int(waiting)
			return err
		})
	})
	return n
}

// requests counts the commands that Lockers send. It doesn't count commands that scripts call, or
// that servers send to each other.
func (s *Service) requests(t conformance.T) (n int64) {
	t.Helper()
	itest.Must(t, func(ctx context.Context) error {
		return s.each(ctx, func(ctx context.Context, node *Node) error {
			text, err := node.Admin.Info(ctx, "commandstats").Result()
			stats := InfoFields(text)
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
