package etcdconn

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
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

// The streams of as many keepalives as are sent at once are kept for the next ones: each new stream
// would be a login.
func TestKeepaliveStreamsAreKept(t *testing.T) {
	const rounds, parallel = 3, 8
	var g gathering
	addr := serveLeases(t, &g)
	m := newMember(newCluster(t, clientv3.Config{Endpoints: []string{addr}}), addr)
	m.of.maxStreams = parallel
	t.Cleanup(m.close)
	for range rounds {
		g.expect(parallel)
		var all sync.WaitGroup
		for i := range parallel {
			all.Go(func() {
				if err := keepAlive(t.Context(), m, clientv3.LeaseID(i+1), 10*time.Second); err != nil {
					t.Errorf("a keepalive: %v", err)
				}
			})
		}
		all.Wait()
	}
	if n := g.streams.Load(); n != parallel {
		t.Errorf("%d streams were opened for %d rounds of %d keepalives", n, rounds, parallel)
	}
}

// The deadline of an attempt may be over when the stream is about to be opened.
func TestNoTimeToOpenAStream(t *testing.T) {
	addr := serveLeases(t, &gathering{})
	m := newMember(newCluster(t, clientv3.Config{Endpoints: []string{addr}}), addr)
	t.Cleanup(m.close)
	err := new(call).attempt(t.Context(), 100*time.Millisecond, m, func(ctx context.Context, m *member) error {
		<-ctx.Done()
		_, err := m.openKeepalives(ctx)
		return err
	})
	if !IsOverdue(err) {
		t.Errorf("openKeepalives = %v, want an error that says that the time is up", err)
	}
}
