//go:build unix

package redlock

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance"
	"github.com/fencedlock/locker/integration/internal/itest"
	redistest "github.com/fencedlock/locker/integration/redis"
)

// Service is several servers that know nothing of each other, and what can be done to them.
type Service struct {
	image string
	Nodes []*redistest.Node
	URL   string
}

// LongestTTL is the default TTL of leases, and the smallest that the suite accepts. It is also the
// longest TTL, so that a server that has lost data doesn't stay away for longer than a case can
// wait.
const LongestTTL = 10 * time.Second

// startRedlock starts five new servers, which have never had a lock.
func startRedlock(ctx context.Context, image string) (*Service, error) {
	return startRedlockOf(ctx, image, 5)
}

func startRedlockOf(ctx context.Context, image string, n int) (*Service, error) {
	return StartFor(ctx, image, n, LongestTTL)
}

// StartFor starts n servers for leases with a TTL of up to longest.
func StartFor(ctx context.Context, image string, n int, longest time.Duration) (*Service, error) {
	ports, err := itest.FreePorts(n)
	if err != nil {
		return nil, err
	}
	s := &Service{image: image}
	for _, port := range ports {
		node, err := redistest.StartNode(ctx, image, port, nil, redistest.Config(port))
		if err != nil {
			return nil, err
		}
		s.Nodes = append(s.Nodes, node)
	}
	s.URL = redlockURL(s.Nodes, "ttl", LongestTTL.String(), "max_ttl", longest.String())
	if err := s.wait(ctx); err != nil {
		return nil, err
	}
	return s, s.waive(ctx, s.URL)
}

func redlockURL(nodes []*redistest.Node, params ...string) string {
	var hosts []string
	for _, n := range nodes {
		hosts = append(hosts, n.Addr)
	}
	query := make(url.Values)
	for pair := range slices.Chunk(params, 2) {
		query.Set(pair[0], pair[1])
	}
	u := url.URL{Scheme: "redlock", User: url.UserPassword("", redistest.Password), Host: strings.Join(hosts, ","), RawQuery: query.Encode()}
	return u.String()
}

// waive declares that no lock with the prefix of a URL has ever existed.
func (s *Service) waive(ctx context.Context, rawURL string) error {
	l, err := locker.Open(ctx, itest.Changed(rawURL, func(u *url.URL) {
		query := u.Query()
		query.Set("new_cluster", "true")
		u.RawQuery = query.Encode()
	}))
	if err != nil {
		return err
	}
	return l.Close()
}

// with returns the service's URL with more parameters.
func (s *Service) with(params ...string) string {
	return itest.Changed(s.URL, func(u *url.URL) {
		query := u.Query()
		for pair := range slices.Chunk(params, 2) {
			query.Set(pair[0], pair[1])
		}
		u.RawQuery = query.Encode()
	})
}

func (s *Service) Open(t conformance.T) locker.Locker { return itest.OpenURL(t, s.URL) }

// wait returns when all servers answer.
func (s *Service) wait(ctx context.Context) error {
	return itest.Until(ctx, func(ctx context.Context) error {
		return s.each(ctx, func(ctx context.Context, n *redistest.Node) error { return n.Admin.Ping(ctx).Err() })
	})
}

func (s *Service) each(ctx context.Context, f func(context.Context, *redistest.Node) error) error {
	for _, n := range s.Nodes {
		if err := f(ctx, n); err != nil {
			return fmt.Errorf("node %s: %w", n.Addr, err)
		}
	}
	return nil
}

// all executes a command on every server.
func (s *Service) all(t conformance.T, args ...any) {
	t.Helper()
	itest.Must(t, func(ctx context.Context) error {
		return s.each(ctx, func(ctx context.Context, n *redistest.Node) error { return n.Admin.Do(ctx, args...).Err() })
	})
}

func ids(nodes []*redistest.Node) (ids []string) {
	for _, n := range nodes {
		ids = append(ids, n.ID)
	}
	return ids
}

func (s *Service) pause(t conformance.T)  { itest.Docker(t, ids(s.Nodes), "pause") }
func (s *Service) resume(t conformance.T) { itest.Docker(t, ids(s.Nodes), "unpause") }

// down stops all servers in good order.
func (s *Service) down(t conformance.T) { itest.Docker(t, ids(s.Nodes), "stop") }
func (s *Service) up(t conformance.T)   { s.start(t, s.Nodes) }

func (s *Service) start(t conformance.T, nodes []*redistest.Node) {
	t.Helper()
	itest.Docker(t, ids(nodes), "start")
	itest.Must(t, s.wait)
}

// restart crashes all servers, and starts them with the data that they have written.
func (s *Service) restart(t conformance.T) { s.restartSome(t, s.Nodes) }

func (s *Service) restartSome(t conformance.T, nodes []*redistest.Node) {
	t.Helper()
	itest.Docker(t, ids(nodes), "kill")
	s.start(t, nodes)
}

func (s *Service) wipe(t conformance.T) {
	s.all(t, "flushall")
	s.restart(t)
}

// requests counts the commands that Lockers send to all servers.
func (s *Service) requests(t conformance.T) (n int64) {
	t.Helper()
	itest.Must(t, func(ctx context.Context) error {
		return s.each(ctx, func(ctx context.Context, node *redistest.Node) error {
			text, err := node.Admin.Info(ctx, "commandstats").Result()
			n += calls(text, "eval", "evalsha", "subscribe", "unsubscribe")
			return err
		})
	})
	return n
}

// calls adds up how often a server has executed some commands, according to INFO commandstats.
func calls(commandstats string, commands ...string) (n int64) {
	stats := redistest.InfoFields(commandstats)
	for _, command := range commands {
		count, _, _ := strings.Cut(strings.TrimPrefix(stats["cmdstat_"+command], "calls="), ",")
		if calls, err := strconv.ParseInt(count, 10, 64); err == nil {
			n += calls
		}
	}
	return n
}
