package etcdbackend_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/fencedlock/locker/etcdbackend"
)

// gathering answers keepalives when a number of them have come.
type gathering struct {
	pb.UnimplementedLeaseServer
	streams atomic.Int32
	mu      sync.Mutex
	missing int
	all     chan struct{} // closed when none is missing
}

// expect says how many the next are.
func (g *gathering) expect(n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.missing, g.all = n, make(chan struct{})
}

func (g *gathering) came() chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.missing--; g.missing == 0 {
		close(g.all)
	}
	return g.all
}

func (g *gathering) LeaseKeepAlive(stream pb.Lease_LeaseKeepAliveServer) error {
	g.streams.Add(1)
	for {
		r, err := stream.Recv()
		if err != nil {
			return err
		}
		<-g.came()
		if err := stream.Send(&pb.LeaseKeepAliveResponse{Header: &pb.ResponseHeader{}, ID: r.ID, TTL: 1}); err != nil {
			return err
		}
	}
}

// The streams of as many keepalives as are sent at once are kept for the next: each new one would be a login.
func TestPulsesAreKept(t *testing.T) {
	var g gathering
	l, server := listen(t), grpc.NewServer()
	pb.RegisterLeaseServer(server, &g)
	go func() { _ = server.Serve(l) }()
	t.Cleanup(server.Stop)
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{l.Addr().String()}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	err = etcdbackend.KeepAlives(t.Context(), client, l.Addr().String(), 3, 10*time.Second, g.expect)
	if err != nil {
		t.Fatalf("keepalives: %v", err)
	}
	if n := g.streams.Load(); n != etcdbackend.MaxFree {
		t.Errorf("%d streams were opened for three rounds of %d keepalives", n, etcdbackend.MaxFree)
	}
}
