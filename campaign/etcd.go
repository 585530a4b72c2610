package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/etcdbackend"
)

// startEtcd starts a cluster of three members with their default settings.
func startEtcd(ctx context.Context) (_ *service, err error) {
	const members = 3
	s, addrs, err := newServers(ctx, members)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.stop())
		}
	}()
	peerPort := func(i int) int { return 23800 + i } // in the servers' own network
	peer := func(i int) string { return fmt.Sprint("http://127.0.0.1:", peerPort(i)) }
	var cluster []string
	for i := range members {
		cluster = append(cluster, fmt.Sprintf("m%d=%s", i, peer(i)))
	}
	for i, addr := range addrs {
		err := s.start(ctx, "etcd", nil, "etcd", "--name", fmt.Sprint("m", i), "--data-dir", "/campaign",
			"--listen-client-urls", "http://0.0.0.0:"+portOf(addr), "--advertise-client-urls", "http://"+addr,
			"--listen-peer-urls", peer(i), "--initial-advertise-peer-urls", peer(i),
			"--initial-cluster", strings.Join(cluster, ","), "--log-level", "error")
		if err != nil {
			return nil, err
		}
	}
	v := &service{servers: s, addrs: addrs, leader: func(ctx context.Context, former int) (int, error) { return etcdLeader(ctx, addrs, former) }}
	for i := range members {
		v.peerPorts = append(v.peerPorts, []int{peerPort(i)})
	}
	v.prepare = func(ctx context.Context) (err error) {
		v.version, err = prepareEtcd(ctx, addrs)
		return err
	}
	return v, v.ready(ctx)
}

// prepareEtcd returns the version of the members when all serve requests.
func prepareEtcd(ctx context.Context, addrs []string) (version string, err error) {
	for _, addr := range addrs {
		c, err := etcdClient(site{addrs: []string{addr}})
		if err != nil {
			return "", err
		}
		defer c.Close()
		if _, err := c.Get(ctx, "ready"); err != nil {
			return "", err
		}
		status, err := c.Status(ctx, addr)
		if err != nil {
			return "", err
		}
		version = "etcd " + status.Version + ", three members"
	}
	return version, nil
}

// etcdLeader returns the number of the member that leads by its own words, unless that is former.
func etcdLeader(ctx context.Context, addrs []string, former int) (int, error) {
	for i, addr := range addrs {
		if i == former {
			continue
		}
		status, err := etcdStatus(ctx, addr)
		if err == nil && status.Leader != 0 && status.Leader == status.Header.MemberId {
			return i, nil
		}
	}
	return nobody, ctx.Err()
}

func etcdStatus(ctx context.Context, addr string) (*clientv3.StatusResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, statusLimit)
	defer cancel()
	c, err := etcdClient(site{addrs: []string{addr}})
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return c.Status(ctx, addr)
}

var etcdLibraries = []library{
	lockerLibrary("", func(ctx context.Context, s site) (locker.Locker, func(), error) {
		c, err := etcdClient(s)
		if err != nil {
			return nil, nil, err
		}
		l, err := etcdbackend.New(ctx, c, etcdbackend.WithDefaultTTL(s.ttl))
		return l, func() { _ = c.Close() }, err
	}),
	{name: "Mutex", setUp: "of etcd's client, with a session for each acquisition", looks: "Session.Done", open: openMutex},
}

func etcdClient(s site) (*clientv3.Client, error) {
	config := clientv3.Config{Logger: zap.NewNop(), DialTimeout: 10 * time.Second, DialKeepAliveTime: 10 * time.Second, DialKeepAliveTimeout: 2 * time.Second}
	for _, addr := range s.addrs {
		config.Endpoints = append(config.Endpoints, "http://"+addr)
	}
	if s.dial != nil {
		config.DialOptions = append(config.DialOptions, grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
			return s.dial(ctx, "tcp", addr)
		}))
	}
	return clientv3.New(config)
}

func openMutex(_ context.Context, s site) (*client, error) {
	c, err := etcdClient(s)
	if err != nil {
		return nil, err
	}
	return &client{
		lock: func(ctx context.Context, name string) (*holding, error) {
			session, err := concurrency.NewSession(c, concurrency.WithTTL(int(s.ttl/time.Second)))
			if err != nil {
				return nil, err
			}
			m := concurrency.NewMutex(session, "mutex/"+name)
			if err := m.Lock(ctx); err != nil {
				return nil, errors.Join(err, session.Close())
			}
			return whileOpen(session.Done(), func(ctx context.Context) error { return errors.Join(m.Unlock(ctx), session.Close()) }), nil
		},
		close: func() { _ = c.Close() },
	}, nil
}
