package etcdbackend

import (
	"context"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
)

// newMember begins to make a connection with the settings of the client, which waits for nothing, as a rule. With grpc.WithBlock,
// that a client of the caller's may have, it waits until the member is reached, or for the client's DialTimeout. So it is done
// in a goroutine, which ends then, or when the client is closed; and a member that isn't there is one that doesn't answer.
func newMember(client *clientv3.Client, addr string) *member {
	m := &member{addr: addr, client: client}
	m.dialing.begin(inBackground, m.dial)
	return m
}

func inBackground(task func(context.Context)) bool {
	go task(context.Background())
	return true
}

// connected waits for the connection. If it couldn't be made, that is tried again. A member that
// was refused has none.
func (m *member) connected(ctx context.Context) error {
	m.mu.Lock()
	done, unfit := m.conn != nil, m.unfit
	m.mu.Unlock()
	if done || unfit != nil {
		return unfit
	}
	return m.dialing.do(ctx, inBackground, m.dial)
}

func (m *member) dial(context.Context) error {
	m.mu.Lock()
	done, closed := m.conn != nil, m.closed
	m.mu.Unlock()
	switch {
	case done:
		return nil
	case closed:
		return errNoAnswer
	}
	conn, err := m.dialAlone()
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		_ = conn.Close()
		return errNoAnswer
	}
	m.conn = conn
	m.kv = clientv3.NewKVFromKVClient(kvClient{pb.NewKVClient(conn)}, m.client)
	m.leases = pb.NewLeaseClient(conn)
	m.watch = pb.NewWatchClient(conn)
	m.maintenance = pb.NewMaintenanceClient(conn)
	m.cluster = pb.NewClusterClient(conn)
	return nil
}

// dialAlone keeps dialing apart from AutoSync as far as that can be done from here: Dial reads the client's endpoints without the
// mutex under which AutoSync sets them, and Endpoints takes it.
func (m *member) dialAlone() (*grpc.ClientConn, error) {
	_ = m.client.Endpoints()
	conn, err := m.client.Dial(m.addr)
	_ = m.client.Endpoints()
	return conn, err
}
