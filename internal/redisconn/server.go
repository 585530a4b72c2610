package redisconn

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"
)

// sentinelAddr is what a client that finds its server through Sentinels says is the server's
// address (NewFailoverClient in sentinel.go).
const sentinelAddr = "FailoverClient"

// UsesSentinels reports whether a client finds its server through Sentinels.
func UsesSentinels(client redis.UniversalClient) bool {
	c, ok := client.(*redis.Client)
	return ok && c.Options().Addr == sentinelAddr
}

// UsesTLS reports whether a client speaks TLS.
func UsesTLS(client redis.UniversalClient) bool {
	switch c := client.(type) {
	case *redis.Client:
		return c.Options().TLSConfig != nil
	case *redis.ClusterClient:
		return c.Options().TLSConfig != nil
	}
	return false
}

// PoolSize returns how many connections to each server the client may have; 0 if that isn't known.
func (c *Conn) PoolSize() int {
	switch c := c.Client.(type) {
	case *redis.Client:
		return c.Options().PoolSize
	case *redis.ClusterClient:
		return c.Options().PoolSize
	}
	return 0
}

// AddressOf names the server that a client reaches, without secrets; "" if it isn't known.
func AddressOf(client any) string {
	switch c := client.(type) {
	case *redis.Client:
		if UsesSentinels(c) {
			return "the master behind the Sentinels"
		}
		return c.Options().Addr
	case *redis.ClusterClient:
		return "the Cluster of " + strings.Join(c.Options().Addrs, ", ")
	}
	return ""
}

// Shard returns the address of the server that has a key, as far as it is known; "" without a
// Cluster.
func (c *Conn) Shard(ctx context.Context, key string) string {
	if c.Cluster == nil {
		return ""
	}
	node, err := c.Cluster.MasterForKey(ctx, key)
	if err != nil {
		return ""
	}
	return node.Options().Addr
}

// NameServer is [Overdue] for a request about a key. Its error names the server that didn't
// answer.
func (c *Conn) NameServer(ctx context.Context, err error, key string) error {
	if err == nil {
		return nil
	}
	if addr := c.Shard(ctx, key); addr != "" {
		return OverdueFrom(addr, err)
	}
	return OverdueFrom(AddressOf(c.Client), err)
}

// OverdueFrom is [Overdue], and names the server at addr if the error says that it didn't
// answer.
func OverdueFrom(addr string, err error) error {
	err = Overdue(err)
	unheard := Silent(err) || errors.Is(err, redis.ErrPoolTimeout)
	if err == nil || !unheard || addr == "" || strings.Contains(err.Error(), addr) {
		return err
	}
	return fmt.Errorf("%s: %w", addr, err)
}
