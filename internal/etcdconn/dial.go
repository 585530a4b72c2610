package etcdconn

import (
	"context"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/fencedlock/locker"
)

// newMember begins to connect to a member with the settings of the client. As a rule that waits for
// nothing. But the caller's client may have grpc.WithBlock: then it waits until the member is
// reached, or for the client's DialTimeout. So it runs in a goroutine, which ends then, or when the
// client is closed; and a member that can't be reached is one that doesn't answer.
func newMember(c *Cluster, addr string) *member {
	m := &member{addr: addr, of: c, dialling: newFlight()}
	c.tasks.Go(func(ctx context.Context) { _ = m.connect(ctx) })
	return m
}

// connected waits for the connection. If it could not be made, it is made again. It fails for a
// member that was refused.
func (m *member) connected(ctx context.Context) error {
	m.mu.Lock()
	done, refused := m.conn != nil, m.refused
	m.mu.Unlock()
	if done || refused != nil {
		return refused
	}
	return m.connect(ctx)
}

func (m *member) connect(ctx context.Context) error {
	_, err := m.dialling.Do(ctx, m.of.tasks, func(context.Context) (struct{}, error) { return struct{}{}, m.dial() })
	return err
}

func (m *member) dial() error {
	m.mu.Lock()
	done, closed := m.conn != nil, m.closed
	m.mu.Unlock()
	switch {
	case done:
		return nil
	case closed:
		return locker.ErrNoAnswer
	}
	conn, err := m.dialClient()
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		_ = conn.Close()
		return locker.ErrNoAnswer
	}
	m.conn = conn
	m.kv = clientv3.NewKVFromKVClient(kvClient{pb.NewKVClient(conn)}, m.of.client)
	m.leases = pb.NewLeaseClient(conn)
	m.watch = pb.NewWatchClient(conn)
	m.maintenance = pb.NewMaintenanceClient(conn)
	m.cluster = pb.NewClusterClient(conn)
	return nil
}

// dialClient orders Dial with AutoSync as far as that is possible here: Dial reads the client's
// endpoints without the mutex under which AutoSync sets them, and Endpoints takes that mutex.
func (m *member) dialClient() (*grpc.ClientConn, error) {
	_ = m.of.client.Endpoints()
	conn, err := m.of.client.Dial(m.addr)
	_ = m.of.client.Endpoints()
	return conn, err
}
