package main

import (
	"context"
	"errors"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/fencedlock/locker/zkbackend"
)

// zooKeeperServers are the addresses of the servers.
type zooKeeperServers []string

// zkTimeout is the timeout of all sessions.
const zkTimeout = 30 * time.Second

type discardLogger struct{}

func (discardLogger) Printf(string, ...any) {}

func (z zooKeeperServers) connect() (*zk.Conn, error) {
	c, _, err := zk.Connect(z, zkTimeout, zk.WithLogger(discardLogger{}))
	return c, err
}

var zkCommands = []string{"packet"}

func (z zooKeeperServers) peer(name string, lock func(c *zk.Conn, name string) (release, error)) peer {
	return peer{name, zkCommands, zkTimeout / 3, func(context.Context) (*client, error) {
		c, err := z.connect()
		if err != nil {
			return nil, err
		}
		return &client{
			lock: func(ctx context.Context, name string) (release, error) {
				if err := ctx.Err(); err != nil { // the client library doesn't use contexts
					return nil, err
				}
				return lock(c, name)
			},
			close: c.Close,
		}, nil
	}}
}

// set is the bare request: one write, which a majority has on disk before the answer.
func (z zooKeeperServers) set() peer {
	return z.peer("Set", func(c *zk.Conn, name string) (release, error) {
		path := "/bare-" + name
		_, err := c.Set(path, nil, -1)
		if errors.Is(err, zk.ErrNoNode) {
			_, err = c.Create(path, nil, 0, zk.WorldACL(zk.PermAll))
		}
		return func(context.Context) error { return nil }, err
	})
}

// ephemeralNode is a lock written without a library: an ephemeral node, created and deleted. It
// can't wait.
func (z zooKeeperServers) ephemeralNode() peer {
	return z.peer("Create by hand", func(c *zk.Conn, name string) (release, error) {
		path := "/by-hand-" + name
		_, err := c.Create(path, nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
		return func(context.Context) error { return c.Delete(path, -1) }, err
	})
}

const zkLockName = "zk.Lock"

// zkLock is the lock recipe of the client library.
func (z zooKeeperServers) zkLock() peer {
	return z.peer(zkLockName, func(c *zk.Conn, name string) (release, error) {
		l := zk.NewLock(c, "/zk-lock-"+name, zk.WorldACL(zk.PermAll))
		if err := l.Lock(); err != nil {
			return nil, err
		}
		return func(context.Context) error { return l.Unlock() }, nil
	})
}

func (z zooKeeperServers) locker() peer {
	return peer{thisProject, zkCommands, ttl / 3, func(ctx context.Context) (*client, error) {
		l, err := zkbackend.New(ctx, z)
		if err != nil {
			return nil, err
		}
		cl := lockerClient(l, func() {}, nil)
		cl.settle = ttl / 3 // each node is watched at the next heartbeat
		return cl, nil
	}}
}
