package redisconn_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencedlock/locker/internal/redisconn"
)

// How long a call may write after its time depends on what bounds it.
func TestOverrun(t *testing.T) {
	const limit = 2 * time.Second // as in NewConn
	for _, c := range []struct {
		what   string
		client redis.UniversalClient
		want   time.Duration
	}{
		{"contexts", redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", ContextTimeoutEnabled: true}), time.Second},
		{"shorter timeouts of the client's copy", redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"}), 11 * limit},
		{"the client's own timeouts",
			redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", ReadTimeout: time.Second, WriteTimeout: 500 * time.Millisecond}), 8 * time.Second},
		{"contexts, for a Cluster", redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:1"}, ContextTimeoutEnabled: true}), time.Second},
		{"the default of go-redis", redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:1"}}), 55 * time.Second},
		{"nothing", redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:1"}, ReadTimeout: -1, WriteTimeout: -1}), time.Minute},
	} {
		if got := redisconn.NewConn(c.client, limit).Overrun(); got != c.want {
			t.Errorf("a call that is bounded by %s may write %v after its time, want %v", c.what, got, c.want)
		}
		_ = c.client.Close()
	}
}
