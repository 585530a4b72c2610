package redisbackend_test

import (
	"context"
	"log"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/redisbackend"
)

// New uses a client that the program has anyway. The program closes the client after the Locker.
func ExampleNew() {
	ctx := context.Background()
	client := redis.NewClient(&redis.Options{Addr: "redis.example:6379", ContextTimeoutEnabled: true})
	defer client.Close()
	l, err := redisbackend.New(ctx, client, redisbackend.WithPrefix("billing:"), redisbackend.WithDefaultTTL(10*time.Second))
	if err != nil {
		log.Fatal(err) // not a master, a version that is too old, a permission that is missing, …
	}
	defer l.Close()

	err = locker.Do(ctx, l, "nightly-report", func(context.Context, locker.Lease) error { return nil }, locker.NoWait())
	if err != nil {
		log.Print(err)
	}
}

// A client of Sentinels finds the master that they have chosen.
func ExampleNew_sentinels() {
	ctx := context.Background()
	client := redis.NewFailoverClient(&redis.FailoverOptions{
		MasterName:            "locks",
		SentinelAddrs:         []string{"sentinel1:26379", "sentinel2:26379", "sentinel3:26379"},
		ContextTimeoutEnabled: true,
	})
	defer client.Close()
	l, err := redisbackend.New(ctx, client)
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close()
}
