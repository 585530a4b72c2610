package main

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/fence/fenceredis"
)

// redisStore keeps the number in a key, and its mark in a second key.
type redisStore struct {
	client *redis.Client
	key    string
	mark   fenceredis.Mark
	fenced bool
}

func openRedis(url, name string, fenced bool) (store, error) {
	options, err := redis.ParseURL(url)
	if err != nil {
		return nil, err
	}
	options.MaxRetries = -1 // a write that is sent twice may be executed twice
	client := redis.NewClient(options)
	key := "{counter:" + name + "}"
	return &redisStore{client, key, fenceredis.Mark{Client: client, Key: key + ":fence"}, fenced}, nil
}

func (s *redisStore) Read(ctx context.Context, token locker.Token) (int64, error) {
	if s.fenced {
		if err := s.mark.Claim(ctx, token); err != nil {
			return 0, err
		}
	}
	return s.Look(ctx)
}

func (s *redisStore) Write(ctx context.Context, token locker.Token, n int64) error {
	if !s.fenced {
		return s.client.Set(ctx, s.key, n, 0).Err()
	}
	_, err := s.mark.Do(ctx, token, "SET", s.key, n)
	return err
}

func (s *redisStore) Look(ctx context.Context) (int64, error) {
	n, err := s.client.Get(ctx, s.key).Int64()
	if errors.Is(err, redis.Nil) {
		err = nil
	}
	return n, err
}

func (s *redisStore) Close() { _ = s.client.Close() }
