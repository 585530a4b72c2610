package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/zkbackend"
)

// startZooKeeper starts an ensemble of three servers with their default settings.
func startZooKeeper(ctx context.Context) (_ *service, err error) {
	const size = 3
	s, addrs, err := newServers(ctx, size)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.stop())
		}
	}()
	var lines []string
	for i, addr := range addrs { // the other ports are in the servers' own network
		lines = append(lines, fmt.Sprintf("server.%d=127.0.0.1:%d:%d;%s", i+1, 28880+i, 38880+i, portOf(addr)))
	}
	for i := range addrs {
		options := []string{"--env", fmt.Sprint("ZOO_MY_ID=", i+1), "--env", "ZOO_SERVERS=" + strings.Join(lines, " "),
			"--env", "ZOO_MAX_CLIENT_CNXNS=0", "--env", "ZOO_ADMINSERVER_ENABLED=false",
			"--env", "ZOO_4LW_COMMANDS_WHITELIST=srvr", "--env", "ZK_SERVER_HEAP=256"}
		if err := s.start(ctx, "zookeeper", options, "/docker-entrypoint.sh", "zkServer.sh", "start-foreground"); err != nil {
			return nil, err
		}
	}
	v := &service{servers: s, addrs: addrs, leader: func(ctx context.Context, former int) (int, error) { return zooKeeperLeader(ctx, addrs, former) }}
	for i := range size {
		v.peerPorts = append(v.peerPorts, []int{28880 + i, 38880 + i})
	}
	v.prepare = func(ctx context.Context) error {
		for _, addr := range addrs {
			status, err := zooKeeperStatus(ctx, addr)
			if err != nil {
				return err
			}
			v.version = "ZooKeeper " + status.version + ", three servers"
		}
		return nil
	}
	return v, v.ready(ctx)
}

// zooKeeperLeader returns the number of the server that leads by its own words, unless that is
// former.
func zooKeeperLeader(ctx context.Context, addrs []string, former int) (int, error) {
	for i, addr := range addrs {
		if i == former {
			continue
		}
		limited, cancel := context.WithTimeout(ctx, statusLimit)
		status, err := zooKeeperStatus(limited, addr)
		cancel()
		if err == nil && status.mode == "leader" {
			return i, nil
		}
	}
	return nobody, ctx.Err()
}

// zooKeeperServer is what a server that serves requests says of itself.
type zooKeeperServer struct{ version, mode string }

func zooKeeperStatus(ctx context.Context, addr string) (server zooKeeperServer, err error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return server, err
	}
	defer conn.Close()
	if deadline, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(deadline)
	}
	if _, err := io.WriteString(conn, "srvr"); err != nil {
		return server, err
	}
	text, err := io.ReadAll(conn)
	if err != nil {
		return server, err
	}
	rest, found := strings.CutPrefix(string(text), "Zookeeper version: ") // 3.9.4-7246445ec281f3d3…, built on …
	if !found {
		return server, fmt.Errorf("the server at %s isn't ready: %q", addr, text)
	}
	server.version, _, _ = strings.Cut(rest, "-")
	if _, rest, found = strings.Cut(rest, "\nMode: "); found {
		server.mode, _, _ = strings.Cut(rest, "\n")
	}
	return server, nil
}

var zooKeeperLibraries = []library{
	lockerLibrary("", func(ctx context.Context, s site) (locker.Locker, func(), error) {
		l, err := zkbackend.New(ctx, s.addrs, zkbackend.WithDefaultTTL(s.ttl), zkbackend.WithDialer(s.dial))
		return l, func() {}, err
	}),
	{name: "zk.Lock", setUp: "of go-zookeeper; the caller watches the connection", looks: "the state of the connection", open: openZkLock},
}

type silence struct{}

func (silence) Printf(string, ...any) {}

// openZkLock has a holder believe as long as the connection has its session, which is the most
// careful that a caller of zk.Lock can be.
func openZkLock(_ context.Context, s site) (*client, error) {
	dial := func(network, addr string, timeout time.Duration) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		return s.dial(ctx, network, addr)
	}
	c, _, err := zk.Connect(s.addrs, s.ttl, zk.WithLogger(silence{}), zk.WithDialer(dial))
	if err != nil {
		return nil, err
	}
	return &client{
		lock: func(ctx context.Context, name string) (*holding, error) {
			l := zk.NewLock(c, "/zk-lock-"+name, zk.WorldACL(zk.PermAll))
			if err := l.Lock(); err != nil {
				return nil, err
			}
			if ctx.Err() != nil {
				return nil, errors.Join(ctx.Err(), l.Unlock())
			}
			return &holding{
				held:    func() bool { return c.State() == zk.StateHasSession },
				release: func(context.Context) error { return l.Unlock() },
			}, nil
		},
		close: c.Close,
		slack: 2 * time.Second, // the servers' tick, by which they round
	}, nil
}
