package main

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/redlockbackend"
)

// startRedlock starts five independent servers.
func startRedlock(ctx context.Context) (*service, error) {
	s, err := startRedisServers(ctx, 5)
	if err != nil {
		return nil, err
	}
	s.version = "five servers of " + s.version
	return s, nil
}

// redlockMaxTTL is how long a server stays away after a restart, and the longest TTL. It is a minute
// by default.
const redlockMaxTTL = 10 * time.Second

var redlockLibraries = []library{
	lockerLibrary("WithMaxTTL 10 s, for which a restarted server stays away", func(ctx context.Context, s site) (locker.Locker, func(), error) {
		var clients []*redis.Client
		for _, addr := range s.addrs {
			clients = append(clients, redisClient(s, addr))
		}
		l, err := redlockbackend.New(ctx, clients, redlockbackend.WithDefaultTTL(s.ttl),
			redlockbackend.WithMaxTTL(redlockMaxTTL), redlockbackend.WithNewCluster())
		return l, func() { closeAll(clients) }, err
	}),
	{name: "redsync", setUp: "five servers; as many tries as needed; connected before; no renewal", looks: "Until", noRenewal: true, open: openRedsync},
}
