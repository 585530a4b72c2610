package etcdconn

import (
	"sync"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
)

// watching is a member that confirms watches.
type watching struct{ pb.UnimplementedWatchServer }

func (watching) Watch(stream pb.Watch_WatchServer) error {
	for {
		r, err := stream.Recv()
		if err != nil {
			return err
		}
		if create := r.GetCreateRequest(); create != nil {
			err = stream.Send(&pb.WatchResponse{Header: &pb.ResponseHeader{ClusterId: 1}, WatchId: create.WatchId, Created: true})
			if err != nil {
				return err
			}
		}
	}
}

// beginning is a Subject that says when its watch begins.
type beginning chan struct{}

func (beginning) Since() int64          { return 0 }
func (b beginning) Begun()              { close(b) }
func (beginning) Deleted(string, int64) {}

// When the watches are closed, the member goes on to get the requests that come last: the next one may be
// silent.
func TestClosingLeavesNoMember(t *testing.T) {
	var addrs []string
	for range 2 {
		l := listen(t)
		serveAt(t, l, func(s *grpc.Server) { pb.RegisterWatchServer(s, watching{}) })
		addrs = append(addrs, l.Addr().String())
	}
	c := newCluster(t, clientv3.Config{Endpoints: addrs})
	before := c.Host()
	var mu sync.Mutex
	w := c.NewWatcher(&mu, func() {})
	begun := make(beginning)
	mu.Lock()
	w.Add("key", "", begun)
	mu.Unlock()
	<-begun
	w.Close()
	if after := c.Host(); after != before {
		t.Errorf("%s was left for %s when the watches were closed", before, after)
	}
}
