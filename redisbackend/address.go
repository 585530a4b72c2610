package redisbackend

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/fencedlock/locker/internal/redisconn"
)

// Errors of go-redis name the server, but for those of a time limit. A reader must know which server is meant.

// failoverAddr is the address that all Sentinel clients have.
const failoverAddr = "FailoverClient"

// addressOf is the server that a client reaches, in words; "" if that isn't known.
func addressOf(client any) string {
	switch c := client.(type) {
	case *redis.Client:
		if addr := c.Options().Addr; addr != failoverAddr {
			return addr
		}
		return "the master behind the Sentinels"
	case *redis.ClusterClient:
		return "the Cluster of " + strings.Join(c.Options().Addrs, ", ")
	}
	return ""
}

// address is the server that a request about a key goes to.
func (s *server) address(ctx context.Context, key string) string {
	if addr := s.shard(ctx, key); addr != "" {
		return addr
	}
	return addressOf(s.client)
}

// overdue is [redisconn.Overdue], and adds who has not answered where err is that nothing was heard in time.
func overdue(err error, addr string) error {
	err = redisconn.Overdue(err)
	quiet := redisconn.Silent(err) || errors.Is(err, redis.ErrPoolTimeout)
	if err == nil || !quiet || addr == "" || strings.Contains(err.Error(), addr) {
		return err
	}
	return fmt.Errorf("%s: %w", addr, err)
}
