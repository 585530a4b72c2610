//go:build unix

package redis

import (
	"context"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/fencedlock/locker/conformance/step"
	"github.com/fencedlock/locker/fence"
	"github.com/fencedlock/locker/fence/fenceredis"
	"github.com/fencedlock/locker/integration/internal/itest"
)

// losesReply is a connection that ends instead of bringing a reply, when lose is set.
type losesReply struct {
	net.Conn
	lose   *atomic.Bool
	before func() // it is lost
}

func (c losesReply) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err == nil && c.lose.CompareAndSwap(true, false) {
		c.before()
		_ = c.Close()
		return 0, io.EOF
	}
	return n, err
}

// The reply to a command is lost, and a successor claims. ErrStale would say that nothing was
// written.
func TestFenceRedisLostReply(t *testing.T) {
	itest.NeedServers(t)
	for _, tc := range []struct {
		name   string
		server func(*testing.T) *Service
	}{{"standalone", Standalone}, {"cluster", redisCluster}} {
		t.Run(tc.name, func(t *testing.T) {
			options := tc.server(t).client
			options.MaxRetries = 3
			successor := redis.NewUniversalClient(&options)
			defer successor.Close()
			tag := "{" + step.LockName(t) + "}"
			var lose atomic.Bool
			options.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
				conn, err := new(net.Dialer).DialContext(ctx, network, addr)
				return losesReply{conn, &lose, func() {
					if err := (fenceredis.Mark{Client: successor, Key: tag + ":fence"}).Claim(t.Context(), 6); err != nil {
						t.Errorf("the successor's Claim(6) = %v", err)
					}
				}}, err
			}
			client := redis.NewUniversalClient(&options)
			defer client.Close()
			mark := fenceredis.Mark{Client: client, Key: tag + ":fence"}
			for range 2 { // the second has a connection, and finds the script known
				if _, err := mark.Do(t.Context(), 5, "INCRBY", tag, 1); err != nil {
					t.Fatal(err)
				}
			}
			lose.Store(true)
			got, err := mark.Do(t.Context(), 5, "INCRBY", tag, 100)
			if err == nil || errors.Is(err, fence.ErrStale) {
				t.Errorf("Do whose reply was lost = %v, %v, want an error that is not ErrStale: it has written", got, err)
			}
			if value := client.Get(t.Context(), tag).Val(); value != "102" {
				t.Errorf("there is %s, want 102: it was executed once", value)
			}
			if _, err := mark.Do(t.Context(), 5, "INCRBY", tag, 100); !errors.Is(err, fence.ErrStale) {
				t.Errorf("Do(5) after Claim(6) = %v, want ErrStale", err)
			}
		})
	}
}
