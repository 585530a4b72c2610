package etcdbackend_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/fencedlock/locker/etcdbackend"
)

// etcd grpc-proxy gives watches ids of its own, so that confirmations and events come to the wrong
// ones. It is refused, and nothing else is asked there any more.
func TestWatchWithAnIDOfItsOwn(t *testing.T) {
	for _, c := range []struct {
		why     string
		resp    *pb.WatchResponse
		refused bool
	}{
		{"the first id", &pb.WatchResponse{WatchId: 0, Created: true, Header: &pb.ResponseHeader{ClusterId: 1}}, true},
		{"an id that was never given", &pb.WatchResponse{WatchId: 2, Created: true, Header: &pb.ResponseHeader{ClusterId: 1}}, true},
		{"no id of a cluster", &pb.WatchResponse{WatchId: 1, Created: true, Header: &pb.ResponseHeader{}}, true},
		{"no header", &pb.WatchResponse{WatchId: 1, Created: true}, true},
		{"as a member answers", &pb.WatchResponse{WatchId: 1, Created: true, Header: &pb.ResponseHeader{ClusterId: 1}}, false},
	} {
		w := etcdbackend.NewWatches()
		w.AddHeld()
		w.Begin()
		w.Open()
		err := w.Heard(c.resp)
		if c.refused != (err != nil) || err != nil && (!errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "grpc-proxy")) {
			t.Errorf("%s: %v, want an error that names the proxy: %v", c.why, err, c.refused)
		}
		if usable := w.Usable(); c.refused != errors.Is(usable, errors.ErrUnsupported) {
			t.Errorf("%s: the next request there: %v, want it to be refused: %v", c.why, usable, c.refused)
		}
	}
}

// Another cluster's watch says nothing of the own one.
func TestWatchAtAnotherCluster(t *testing.T) {
	w := etcdbackend.NewWatches()
	w.AddHeld()
	w.Begin()
	w.Open()
	if err := w.Heard(&pb.WatchResponse{WatchId: 1, Created: true, Header: &pb.ResponseHeader{ClusterId: 1}}); err != nil {
		t.Fatal(err)
	}
	for what, resp := range map[string]*pb.WatchResponse{
		"an event":  {WatchId: 1, Header: &pb.ResponseHeader{ClusterId: 2}},
		"a refusal": {WatchId: -1, Created: true, Canceled: true, CancelReason: "etcdserver: invalid auth token", Header: &pb.ResponseHeader{ClusterId: 2}},
	} {
		err := w.Heard(resp)
		if err == nil || !strings.Contains(err.Error(), "another cluster") {
			t.Errorf("%s of another cluster: %v, want an error that says so", what, err)
		}
	}
}

// An answer with less than the TTL is none to a keepalive: it may be what is left of the etcd
// lease, which a proxy has asked for.
func TestKeepaliveThatExtendsNothing(t *testing.T) {
	s := cluster{left: func(granted int64) int64 { return granted - 1 }}
	d := s.start(t)
	l, _ := acquire(t, d, "n", 10*time.Second)
	before := s.leaseOf(etcdbackend.KeyOf(l))
	if errs := renew(t, d, l); errs[0] != nil {
		t.Errorf("Renew = %v", errs[0])
	}
	if s.leaseOf(etcdbackend.KeyOf(l)) == before {
		t.Error("the key is still on the etcd lease that nothing has extended")
	}
}
