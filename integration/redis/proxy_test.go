//go:build unix

package redis

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencedlock/locker/conformance/proxy"
	"github.com/fencedlock/locker/conformance/step"
	"github.com/fencedlock/locker/integration/internal/itest"
)

// The network between a client and Redis does what the suite relies on, as the server sees it.
func TestRedisThroughProxy(t *testing.T) {
	itest.NeedServers(t)
	s := Standalone(t)
	admin := s.Nodes[0].Admin
	network := proxy.Start(t)
	name := step.LockName(t)
	client := redis.NewClient(&redis.Options{
		Addr: s.Nodes[0].Addr, Password: Password, Dialer: network.Dial, ClientName: name,
		MaxRetries: -1, PoolSize: 1, ReadTimeout: time.Second,
	})
	t.Cleanup(func() { _ = client.Close() })
	incr := func(want int64) {
		t.Helper()
		if n, err := client.Incr(t.Context(), name).Result(); err != nil || n != want {
			t.Errorf("INCR = %d, %v, want %d", n, err, want)
		}
	}
	lostReply := func() {
		t.Helper()
		if n, err := client.Incr(t.Context(), name).Result(); !errors.Is(err, context.DeadlineExceeded) && (err == nil || !strings.Contains(err.Error(), "timeout")) {
			t.Errorf("INCR = %d, %v, want a timeout", n, err)
		}
	}
	value := func(want string) {
		t.Helper()
		if got := admin.Get(t.Context(), name).Val(); got != want {
			t.Errorf("the server has %q, want %q", got, want)
		}
	}
	connections := func() int {
		t.Helper()
		return strings.Count(admin.ClientList(t.Context()).Val(), "name="+name)
	}
	incr(1)

	network.Drop(1)
	lostReply()
	value("2") // executed
	incr(3)
	network.Heal()

	network.DropReplyTo(name + "-")
	incr(4)
	if err := client.Get(t.Context(), name+"-").Err(); err == nil || errors.Is(err, redis.Nil) {
		t.Errorf("GET = %v, want a timeout", err)
	}
	incr(5)
	network.Heal()

	step.Eventually(t, itest.ShortWait, func() error { // go-redis has closed the one before, whose reply was lost
		if n := connections(); n != 1 {
			return fmt.Errorf("the server sees %d connections, want one", n)
		}
		return nil
	})
	network.Cut()
	lostReply() // go-redis closes the connection, and the server doesn't hear of it
	value("5")
	if n := connections(); n != 1 {
		t.Errorf("the server sees %d connections, want one, which is half-open", n)
	}
	network.Heal()
	step.Eventually(t, itest.ShortWait, func() error { // TCP has sent it again
		if got := admin.Get(t.Context(), name).Val(); got != "6" {
			return errors.New("the request has not arrived; the server has " + got)
		}
		return nil
	})
	incr(7)

	network.Sever()
	step.Eventually(t, itest.ShortWait, func() error {
		if n := connections(); n != 0 {
			return errors.New("the server sees connections that were reset")
		}
		return nil
	})
	incr(8)
}
