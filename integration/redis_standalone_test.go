//go:build unix

package integration

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// startRedis starts one server.
func startRedis(ctx context.Context, image string) (*redisService, error) {
	ports, err := freePorts(1)
	if err != nil {
		return nil, err
	}
	node, err := startRedisNode(ctx, image, ports[0], nil, redisConfig(ports[0]))
	if err != nil {
		return nil, err
	}
	s := &redisService{
		nodes:  []*redisNode{node},
		client: redis.UniversalOptions{Addrs: []string{node.addr}, Password: redisPassword},
		url:    redisURL([]*redisNode{node}),
		ready:  func(ctx context.Context) error { return node.admin.Ping(ctx).Err() },
	}
	return s, s.wait(ctx)
}
