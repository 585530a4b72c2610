//go:build unix

package redis

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
	"github.com/fencedlock/locker/integration/internal/itest"
)

// Service is Redis in one of the ways in which it is run, and what can be done to it. All its nodes
// have the same password.
type Service struct {
	Nodes     []*Node                         // that hold data
	sentinels []*Node                         // that don't
	client    redis.UniversalOptions          // how a Locker's client reaches it
	URL       string                          // the same for locker.Open
	ready     func(ctx context.Context) error // nil when all requests are served
	failover  func(ctx context.Context) error // nil where there is no replica
}

// Node is one server process.
type Node struct {
	*itest.Container
	Addr  string
	Admin *redis.Client // the tests' own way to it
}

var Password = rand.Text()

// Config is the configuration that all nodes share. A node writes a snapshot when it is stopped in
// good order, and never while a test runs. So a crash loses what was written since, as in
// production.
func Config(port int, more ...string) map[string]string {
	lines := append([]string{
		fmt.Sprint("port ", port),
		"protected-mode no", // it is published on 127.0.0.1 alone
		"requirepass " + Password,
		"save 3600 1",
		"enable-debug-command yes",
		"dir /data",
	}, more...)
	return map[string]string{"/data/redis.conf": strings.Join(lines, "\n") + "\n"}
}

// StartNode starts a node with its own port, which is published by the node or by the container
// whose network the node shares.
func StartNode(
	ctx context.Context, image string, port int, inside *itest.Container,
	config map[string]string, args ...string,
) (*Node, error) {
	r := itest.Spec{Image: image, Args: append([]string{"redis-server", "/data/redis.conf"}, args...), Files: config, Inside: inside}
	if inside == nil {
		r.Ports = []int{port}
	}
	c, err := itest.Start(ctx, r)
	if err != nil {
		return nil, err
	}
	admin := redis.NewClient(&redis.Options{ // tries again, for sentinels and tests break connections, but not for long
		Addr: itest.LocalAddr(port), Password: Password, PoolSize: 2, DisableIdentity: true,
		MinRetryBackoff: time.Millisecond, MaxRetryBackoff: 5 * time.Millisecond, DialerRetries: 1, ContextTimeoutEnabled: true,
	})
	return &Node{c, itest.LocalAddr(port), admin}, nil
}

// redisURL is a URL with the addresses of all nodes, and parameters.
func redisURL(nodes []*Node, params ...string) string {
	query := make(url.Values)
	for _, n := range nodes[1:] {
		query.Add("addr", n.Addr)
	}
	for pair := range slices.Chunk(params, 2) {
		query.Set(pair[0], pair[1])
	}
	u := url.URL{Scheme: "redis", User: url.UserPassword("", Password), Host: nodes[0].Addr, RawQuery: query.Encode()}
	return u.String()
}

// containers lists the containers of the service. The sentinels come first, so that they are
// stopped first.
func (s *Service) containers() (ids []string) {
	for _, n := range slices.Concat(s.sentinels, s.Nodes) {
		ids = append(ids, n.ID)
	}
	return ids
}

func (s *Service) pause(t conformance.T) { itest.Docker(t, s.containers(), "pause") }

func (s *Service) resume(t conformance.T) {
	ids := s.containers()
	slices.Reverse(ids)
	itest.Docker(t, ids, "unpause")
}

// down stops all nodes in good order.
func (s *Service) down(t conformance.T) { itest.Docker(t, s.containers(), "stop") }

func (s *Service) up(t conformance.T) {
	ids := s.containers()
	slices.Reverse(ids)
	itest.Docker(t, ids, "start")
	itest.Must(t, s.wait)
}

// restart crashes all nodes that hold data, and starts them with the data that they have written.
// The backend promises no more than that. After a stop in good order leases survive, which is a
// case of the pack.
func (s *Service) restart(t conformance.T) {
	var ids []string
	for _, n := range s.Nodes {
		ids = append(ids, n.ID)
	}
	itest.Docker(t, ids, "kill")
	itest.Docker(t, ids, "start")
	itest.Must(t, s.wait)
}

func (s *Service) wipe(t conformance.T) {
	s.flush(t)
	s.restart(t)
}

// flush removes all data of all nodes, and has them save the empty state.
func (s *Service) flush(t conformance.T) {
	itest.Must(t, func(ctx context.Context) error {
		return s.each(ctx, func(ctx context.Context, n *Node) error { return n.Admin.FlushAll(ctx).Err() })
	})
}

// each calls f for every node that accepts writes.
func (s *Service) each(ctx context.Context, f func(context.Context, *Node) error) error {
	for _, n := range s.Nodes {
		role, err := n.role(ctx)
		if err != nil {
			return err
		}
		if role != "master" {
			continue
		}
		if err := f(ctx, n); err != nil {
			return fmt.Errorf("node %s: %w", n.Addr, err)
		}
	}
	return nil
}

// where calls f for the node that has the key.
func (s *Service) where(ctx context.Context, f func(context.Context, *Node) error) error {
	return s.each(ctx, func(ctx context.Context, n *Node) error {
		err := f(ctx, n)
		if redis.HasErrorPrefix(err, "MOVED") {
			return nil
		}
		return err
	})
}

func (n *Node) role(ctx context.Context) (string, error) {
	answer, err := n.Admin.Do(ctx, "role").Slice()
	if err != nil {
		return "", err
	}
	role, _ := answer[0].(string)
	return role, nil
}

// Info returns one field of a node's INFO.
func (n *Node) Info(ctx context.Context, section, field string) (string, error) {
	text, err := n.Admin.Info(ctx, section).Result()
	return InfoFields(text)[field], err
}

func InfoFields(text string) map[string]string {
	fields := make(map[string]string)
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			fields[name] = value
		}
	}
	return fields
}

// wait returns when the service serves all requests.
func (s *Service) wait(ctx context.Context) error { return itest.Until(ctx, s.ready) }
