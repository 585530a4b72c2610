//go:build unix

package redis

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/fencedlock/locker/integration/internal/itest"
)

// Start starts one server.
func Start(ctx context.Context, image string) (*Service, error) { return startWith(ctx, image) }

// startWith starts one server with more lines of configuration.
func startWith(ctx context.Context, image string, more ...string) (*Service, error) {
	ports, err := itest.FreePorts(1)
	if err != nil {
		return nil, err
	}
	node, err := StartNode(ctx, image, ports[0], nil, Config(ports[0], more...))
	if err != nil {
		return nil, err
	}
	s := &Service{
		Nodes:  []*Node{node},
		client: redis.UniversalOptions{Addrs: []string{node.Addr}, Password: Password},
		URL:    redisURL([]*Node{node}),
		ready:  func(ctx context.Context) error { return node.Admin.Ping(ctx).Err() },
	}
	return s, s.wait(ctx)
}
