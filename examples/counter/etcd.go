package main

import (
	"context"
	"net/url"
	"strconv"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/fence/fenceetcd"
)

// etcdStore keeps the number in a key, and its mark in a second key.
type etcdStore struct {
	client *clientv3.Client
	key    string
	mark   fenceetcd.Mark
	fenced bool
}

func openEtcd(rawURL, name string, fenced bool) (store, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		return nil, err
	}
	config := clientv3.Config{Endpoints: strings.Split(u.Host, ","), Logger: zap.NewNop()}
	if u.User != nil {
		config.Username = u.User.Username()
		config.Password, _ = u.User.Password()
	}
	client, err := clientv3.New(config)
	if err != nil {
		return nil, err
	}
	key := "counters/" + name
	return &etcdStore{client, key, fenceetcd.Mark{KV: client, Key: "fences/" + key}, fenced}, nil
}

func (s *etcdStore) Read(ctx context.Context, token locker.Token) (int64, error) {
	if s.fenced {
		if err := s.mark.Claim(ctx, token); err != nil {
			return 0, err
		}
	}
	return s.Look(ctx)
}

func (s *etcdStore) Write(ctx context.Context, token locker.Token, n int64) error {
	put := clientv3.OpPut(s.key, strconv.FormatInt(n, 10))
	if !s.fenced {
		_, err := s.client.Do(ctx, put)
		return err
	}
	_, err := s.mark.Commit(ctx, token, nil, put)
	return err
}

func (s *etcdStore) Look(ctx context.Context) (int64, error) {
	got, err := s.client.Get(ctx, s.key)
	if err != nil || len(got.Kvs) == 0 {
		return 0, err
	}
	return strconv.ParseInt(string(got.Kvs[0].Value), 10, 64)
}

func (s *etcdStore) Close() { _ = s.client.Close() }
