package redisbackend_test

import (
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/fencedlock/locker/internal/redisclient"
	"github.com/fencedlock/locker/redisbackend"
)

// In a Cluster go-redis sends what a server has refused to another one, and when that one's connection breaks, some of the
// requests still have the error of the refusal. That doesn't say that they were not carried out.
func TestRefusedThenBroken(t *testing.T) {
	f := newFake(t)
	host, port, err := net.SplitHostPort(f.addr)
	if err != nil {
		t.Fatal(err)
	}
	f.slots = fmt.Sprintf("*1\r\n*3\r\n:0\r\n:16383\r\n*3\r\n$%d\r\n%s\r\n:%s\r\n$1\r\nx\r\n", len(host), host, port)
	var calls atomic.Int32
	f.does(func([]string) string {
		if calls.Add(1) <= 3 {
			return "-MOVED 1 " + f.addr + "\r\n"
		}
		return hangUp
	})
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{f.addr}})
	defer client.Close()
	errs := redisbackend.Exchange(t.Context(), client, 3)
	for i, err := range errs {
		if err == nil || redisclient.Certain(err) {
			t.Errorf("request %d of a message that was sent: %v, want an error that leaves in doubt whether it was carried out", i, err)
		}
	}
	if n := calls.Load(); n < 4 {
		t.Errorf("the server had %d requests, so this proves nothing", n)
	}

	f.answers("-MOVED 1 " + f.addr + "\r\n")
	for i, err := range redisbackend.Exchange(t.Context(), client, 3) {
		if err == nil || !redisclient.Certain(err) || !strings.Contains(err.Error(), "MOVED") {
			t.Errorf("request %d: %v, want MOVED: it was refused each time", i, err)
		}
	}
	calls.Store(0)
	f.does(func([]string) string {
		if calls.Add(1) <= 3 {
			return "-MOVED 1 " + f.addr + "\r\n"
		}
		return granted
	})
	for i, err := range redisbackend.Exchange(t.Context(), client, 3) {
		if err != nil {
			t.Errorf("request %d: %v, want nil: it was carried out in the end", i, err)
		}
	}
}
