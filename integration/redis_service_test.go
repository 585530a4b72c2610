//go:build unix

package integration

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencedlock/locker/conformance"
)

// redisService is Redis in one of the ways in which it is run, and what can be done to it. All its nodes have the same
// password.
type redisService struct {
	nodes     []*redisNode                    // that hold data
	sentinels []*redisNode                    // that don't
	client    redis.UniversalOptions          // how a Locker's client reaches it
	url       string                          // the same for locker.Open
	ready     func(ctx context.Context) error // nil when all requests are served
	failover  func(ctx context.Context) error // nil where there is no replica
}

// redisNode is one process.
type redisNode struct {
	*container
	addr  string
	admin *redis.Client // the tests' own way to it
}

var redisPassword = rand.Text()

// redisConfig is what all nodes have in common. Snapshots are written when a node is stopped in good order, and never in
// the time that a test takes: so a crash costs what was written since, as anywhere.
func redisConfig(port int, more ...string) map[string]string {
	lines := append([]string{
		fmt.Sprint("port ", port),
		"protected-mode no", // it is published on 127.0.0.1 alone
		"requirepass " + redisPassword,
		"save 3600 1",
		"enable-debug-command yes",
		"dir /data",
	}, more...)
	return map[string]string{"/data/redis.conf": strings.Join(lines, "\n") + "\n"}
}

// startRedisNode starts a node with a port of its own, published by itself or by the container whose network it shares.
func startRedisNode(ctx context.Context, image string, port int, inside *container, config map[string]string, args ...string) (*redisNode, error) {
	r := run{image: image, args: append([]string{"redis-server", "/data/redis.conf"}, args...), files: config, inside: inside}
	if inside == nil {
		r.ports = []int{port}
	}
	c, err := start(ctx, r)
	if err != nil {
		return nil, err
	}
	admin := redis.NewClient(&redis.Options{ // tries again, for sentinels and tests break connections, but not for long
		Addr: local(port), Password: redisPassword, PoolSize: 2, DisableIdentity: true,
		MinRetryBackoff: time.Millisecond, MaxRetryBackoff: 5 * time.Millisecond, DialerRetries: 1, ContextTimeoutEnabled: true,
	})
	return &redisNode{c, local(port), admin}, nil
}

// redisURL is a URL with the addresses of all nodes, and parameters.
func redisURL(nodes []*redisNode, params ...string) string {
	query := make(url.Values)
	for _, n := range nodes[1:] {
		query.Add("addr", n.addr)
	}
	for pair := range slices.Chunk(params, 2) {
		query.Set(pair[0], pair[1])
	}
	u := url.URL{Scheme: "redis", User: url.UserPassword("", redisPassword), Host: nodes[0].addr, RawQuery: query.Encode()}
	return u.String()
}

// containers lists those of the service. What watches comes first, and is stopped first.
func (s *redisService) containers() (ids []string) {
	for _, n := range slices.Concat(s.sentinels, s.nodes) {
		ids = append(ids, n.id)
	}
	return ids
}

func (s *redisService) pause(t conformance.T) { docker(t, s.containers(), "pause") }

func (s *redisService) resume(t conformance.T) {
	ids := s.containers()
	slices.Reverse(ids)
	docker(t, ids, "unpause")
}

// down stops all nodes in good order.
func (s *redisService) down(t conformance.T) { docker(t, s.containers(), "stop") }

func (s *redisService) up(t conformance.T) {
	ids := s.containers()
	slices.Reverse(ids)
	docker(t, ids, "start")
	must(t, s.wait)
}

// restart is a crash of all nodes that hold data, and a start on what they have written. What is promised is no more than that;
// after a stop in good order leases live on, which is a case of the pack.
func (s *redisService) restart(t conformance.T) {
	var ids []string
	for _, n := range s.nodes {
		ids = append(ids, n.id)
	}
	docker(t, ids, "kill")
	docker(t, ids, "start")
	must(t, s.wait)
}

func (s *redisService) wipe(t conformance.T) {
	s.flush(t)
	s.restart(t)
}

// flush makes all nodes forget all, and write that down.
func (s *redisService) flush(t conformance.T) {
	must(t, func(ctx context.Context) error {
		return s.each(ctx, func(ctx context.Context, n *redisNode) error { return n.admin.FlushAll(ctx).Err() })
	})
}

// each asks every node that takes writes.
func (s *redisService) each(ctx context.Context, f func(context.Context, *redisNode) error) error {
	for _, n := range s.nodes {
		role, err := n.role(ctx)
		if err != nil {
			return err
		}
		if role != "master" {
			continue
		}
		if err := f(ctx, n); err != nil {
			return fmt.Errorf("node %s: %w", n.addr, err)
		}
	}
	return nil
}

// where asks the node that has the key that f is about.
func (s *redisService) where(ctx context.Context, f func(context.Context, *redisNode) error) error {
	return s.each(ctx, func(ctx context.Context, n *redisNode) error {
		err := f(ctx, n)
		if redis.HasErrorPrefix(err, "MOVED") {
			return nil
		}
		return err
	})
}

func (n *redisNode) role(ctx context.Context) (string, error) {
	answer, err := n.admin.Do(ctx, "role").Slice()
	if err != nil {
		return "", err
	}
	role, _ := answer[0].(string)
	return role, nil
}

// info returns one field of what a node says of itself.
func (n *redisNode) info(ctx context.Context, section, field string) (string, error) {
	text, err := n.admin.Info(ctx, section).Result()
	return infoFields(text)[field], err
}

func infoFields(text string) map[string]string {
	fields := make(map[string]string)
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			fields[name] = value
		}
	}
	return fields
}

// wait returns when all requests are served.
func (s *redisService) wait(ctx context.Context) error { return until(ctx, s.ready) }
