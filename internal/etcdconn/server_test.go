package etcdconn

import (
	"context"
	"net"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
)

// silentKV takes requests and answers as reply does.
type silentKV struct {
	pb.UnimplementedKVServer
	reply func(context.Context) (*pb.TxnResponse, error)
}

func (s *silentKV) Txn(ctx context.Context, _ *pb.TxnRequest) (*pb.TxnResponse, error) {
	return s.reply(ctx)
}

func listen(t *testing.T) net.Listener {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// listenAlone is listen at an address that nothing else uses, on systems that have one. Nothing takes its port
// when it is closed.
func listenAlone(t *testing.T) net.Listener {
	l, err := net.Listen("tcp", "127.0.0.2:0")
	if err != nil {
		return listen(t)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// serveAt serves what register adds.
func serveAt(t *testing.T, l net.Listener, register func(*grpc.Server)) *grpc.Server {
	server := grpc.NewServer()
	register(server)
	go func() { _ = server.Serve(l) }()
	t.Cleanup(server.Stop)
	return server
}

func serve(t *testing.T, reply func(context.Context) (*pb.TxnResponse, error)) (addr string) {
	l := listen(t)
	serveAt(t, l, func(s *grpc.Server) { pb.RegisterKVServer(s, &silentKV{reply: reply}) })
	return l.Addr().String()
}

func serveLeases(t *testing.T, leases pb.LeaseServer) (addr string) {
	l := listen(t)
	serveAt(t, l, func(s *grpc.Server) { pb.RegisterLeaseServer(s, leases) })
	return l.Addr().String()
}

// newCluster connects to the endpoints of a client.
func newCluster(t *testing.T, config clientv3.Config) *Cluster {
	t.Helper()
	config.Logger = zap.NewNop()
	client, err := clientv3.New(config)
	if err != nil {
		t.Fatal(err)
	}
	c := New(client, 8)
	t.Cleanup(func() {
		c.Close()
		_ = client.Close()
	})
	return c
}

// keepAlive sends one keepalive to a member.
func keepAlive(ctx context.Context, m *member, id clientv3.LeaseID, limit time.Duration) error {
	return new(call).attempt(ctx, limit, m, func(ctx context.Context, m *member) error {
		_, _, err := m.keepAlive(ctx, id)
		return err
	})
}
