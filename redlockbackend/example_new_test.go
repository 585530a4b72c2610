package redlockbackend_test

import (
	"context"
	"log"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/redlockbackend"
)

// New uses clients that the program has, one for each server. The servers are independent of each
// other: none is a replica.
func ExampleNew() {
	ctx := context.Background()
	var servers []*redis.Client
	for _, addr := range []string{"redis1:6379", "redis2:6379", "redis3:6379"} {
		client := redis.NewClient(&redis.Options{Addr: addr, ContextTimeoutEnabled: true})
		defer client.Close()
		servers = append(servers, client)
	}
	l, err := redlockbackend.New(ctx, servers, redlockbackend.WithDefaultTTL(10*time.Second))
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close()
}

// The same by URL. Exclusion depends on the clocks of the servers, so Correctness is refused.
func Example() {
	l, err := locker.Open(context.Background(), "redlock://redis1,redis2,redis3?ttl=10s", locker.Efficiency, locker.ToleranceMinority)
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close()
}
