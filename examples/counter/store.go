package main

import (
	"context"
	"errors"
	"strings"

	"github.com/fencedlock/locker"
)

// store keeps one number. With a fence, Read first claims the number for the token, and Write
// claims it again in the same step as it writes. If a larger token has claimed, both fail with an
// error that matches fence.ErrStale.
type store interface {
	Read(ctx context.Context, token locker.Token) (int64, error)
	Write(ctx context.Context, token locker.Token, n int64) error

	// Look reads without a claim, and decides nothing.
	Look(ctx context.Context) (int64, error)

	Close()
}

func openStore(ctx context.Context, url, name string, fenced bool) (store, error) {
	scheme, _, _ := strings.Cut(url, "://")
	switch scheme {
	case "postgres", "postgresql":
		return openPostgres(ctx, url, name, fenced)
	case "redis", "rediss":
		return openRedis(url, name, fenced)
	case "etcd":
		return openEtcd(url, name, fenced)
	}
	return nil, errors.New("--data must be a URL postgres://, redis:// or etcd://")
}
