package main

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"

	"github.com/fencedlock/locker/etcdbackend"
)

// etcdEndpoints are the addresses of the members.
type etcdEndpoints []string

func (e etcdEndpoints) client() (*clientv3.Client, error) {
	var urls []string
	for _, member := range e {
		urls = append(urls, "http://"+member)
	}
	return clientv3.New(clientv3.Config{Endpoints: urls, Logger: zap.NewNop(), DialTimeout: 10 * time.Second})
}

var etcdCommands = []string{"Txn", "Range", "Put", "DeleteRange", "LeaseGrant", "LeaseKeepAlive", "LeaseRevoke", "LeaseTimeToLive", "Watch"}

func (e etcdEndpoints) peer(
	name string, renewInterval time.Duration,
	open func(ctx context.Context, c *clientv3.Client) (*client, error),
) peer {
	return peer{name, etcdCommands, renewInterval, func(ctx context.Context) (*client, error) {
		c, err := e.client()
		if err != nil {
			return nil, err
		}
		cl, err := open(ctx, c)
		if err != nil {
			return nil, errors.Join(err, c.Close())
		}
		inner := cl.close
		cl.close = func() {
			inner()
			_ = c.Close()
		}
		return cl, nil
	}}
}

// put is the bare request: one write, which a majority has on disk before the answer.
func (e etcdEndpoints) put() peer {
	return e.peer("Put", 0, func(_ context.Context, c *clientv3.Client) (*client, error) {
		return &client{
			lock: func(ctx context.Context, name string) (release, error) {
				_, err := c.Put(ctx, "bare/"+name, "")
				return func(context.Context) error { return nil }, err
			},
			close: func() {},
		}, nil
	})
}

// handWrittenTxns is a lock written without a library: a key with a lease that all locks of a
// client share, created and deleted. It can't wait.
func (e etcdEndpoints) handWrittenTxns() peer {
	return e.peer("Txn by hand", 0, func(ctx context.Context, c *clientv3.Client) (*client, error) {
		lease, err := c.Grant(ctx, int64(time.Hour/time.Second))
		if err != nil {
			return nil, err
		}
		return &client{
			lock: func(ctx context.Context, name string) (release, error) {
				key, owner := "by-hand/"+name, rand.Text()
				r, err := c.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(key), "=", 0)).
					Then(clientv3.OpPut(key, owner, clientv3.WithLease(lease.ID))).Commit()
				if err == nil && !r.Succeeded {
					err = errors.New("somebody else has the lock")
				}
				return func(ctx context.Context) error {
					_, err := c.Txn(ctx).If(clientv3.Compare(clientv3.Value(key), "=", owner)).Then(clientv3.OpDelete(key)).Commit()
					return err
				}, err
			},
			close: func() {},
		}, nil
	})
}

func (e etcdEndpoints) locker() peer {
	return peer{thisProject, etcdCommands, ttl / 3, func(ctx context.Context) (*client, error) {
		c, err := e.client()
		if err != nil {
			return nil, err
		}
		l, err := etcdbackend.New(ctx, c, etcdbackend.WithDefaultTTL(ttl))
		if err != nil {
			return nil, errors.Join(err, c.Close())
		}
		cl := lockerClient(l, func() { _ = c.Close() }, nil)
		cl.settle = time.Second // each key is watched when it has been held for a fifth of that
		return cl, nil
	}}
}

const (
	sharedMutexName = "Mutex, shared session"
	ownMutexName    = "Mutex, own sessions"
)

// sharedMutex is the Mutex of etcd's client, with one session for all locks of a process. With such
// a session, all callers in one process that want the same name are the same holder. So this peer
// never wants a name twice in one process.
func (e etcdEndpoints) sharedMutex() peer {
	return e.peer(sharedMutexName, ttl/3, func(_ context.Context, c *clientv3.Client) (*client, error) {
		session, err := concurrency.NewSession(c, concurrency.WithTTL(int(ttl/time.Second)))
		if err != nil {
			return nil, err
		}
		return &client{
			lock: func(ctx context.Context, name string) (release, error) {
				m := concurrency.NewMutex(session, "mutex/"+name)
				return m.Unlock, m.Lock(ctx)
			},
			close: func() { _ = session.Close() },
		}, nil
	})
}

// ownMutex has a session for each acquisition, which is necessary if several callers in one process
// want the same name.
func (e etcdEndpoints) ownMutex() peer {
	return e.peer(ownMutexName, ttl/3, func(_ context.Context, c *clientv3.Client) (*client, error) {
		return &client{
			lock: func(ctx context.Context, name string) (release, error) {
				session, err := concurrency.NewSession(c, concurrency.WithTTL(int(ttl/time.Second)))
				if err != nil {
					return nil, err
				}
				m := concurrency.NewMutex(session, "mutex/"+name)
				if err := m.Lock(ctx); err != nil {
					return nil, errors.Join(err, session.Close())
				}
				return func(ctx context.Context) error { return errors.Join(m.Unlock(ctx), session.Close()) }, nil
			},
			close: func() {},
		}, nil
	})
}
