package etcdconn

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/test/bufconn"
)

// forgetting is a network whose firewall forgets connections: nothing arrives on them any more, and no end
// learns of it.
type forgetting struct {
	mu    sync.Mutex
	conns []*forgotten
}

type forgotten struct {
	net.Conn
	over atomic.Bool
}

func (c *forgotten) Write(b []byte) (int, error) {
	if c.over.Load() {
		return len(b), nil
	}
	return c.Conn.Write(b)
}

func (f *forgetting) add(c net.Conn) net.Conn {
	f.mu.Lock()
	defer f.mu.Unlock()
	one := &forgotten{Conn: c}
	f.conns = append(f.conns, one)
	return one
}

// forget forgets all connections that exist.
func (f *forgetting) forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.conns {
		c.over.Store(true)
	}
}

// A connection on which nothing has been sent for a while may have died without a sign. The next request
// doesn't find that out.
func TestIdleConnectionsAreMadeAgain(t *testing.T) {
	bubble(t, "in a bubble", func(t *testing.T) {
		l := bufconn.Listen(1 << 16)
		server := serveAt(t, l, func(s *grpc.Server) {
			pb.RegisterKVServer(s, &silentKV{reply: func(context.Context) (*pb.TxnResponse, error) {
				return &pb.TxnResponse{Header: &pb.ResponseHeader{ClusterId: 1}}, nil
			}})
		})
		var network forgetting
		client, err := NewClient(clientv3.Config{
			Endpoints: []string{"a:1", "b:1", "c:1"},
			Logger:    zap.NewNop(),
			DialOptions: []grpc.DialOption{grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
				c, err := l.DialContext(ctx)
				if err != nil {
					return nil, err
				}
				return network.add(c), nil
			})},
		})
		if err != nil {
			t.Fatal(err)
		}
		c := New(client, 8)
		defer func() {
			c.Close()
			_ = client.Close()
			server.Stop()
		}()
		if _, err := c.Txn(t.Context(), MaxAttempt, nil, nil, nil); err != nil {
			t.Fatalf("Txn = %v", err)
		}
		time.Sleep(3 * idleLimit)
		network.forget()
		began := time.Now()
		if _, err := c.Txn(t.Context(), MaxAttempt, nil, nil, nil); err != nil {
			t.Errorf("Txn after a pause = %v", err)
		}
		if took := time.Since(began); took >= MaxAttempt {
			t.Errorf("Txn after a pause took %v, want no attempt without an answer", took)
		}
	})
}
