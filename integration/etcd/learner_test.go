//go:build unix

package etcd

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/peer"

	"github.com/fencedlock/locker/conformance/step"
	"github.com/fencedlock/locker/etcdbackend"
	"github.com/fencedlock/locker/integration/images"
	"github.com/fencedlock/locker/integration/internal/itest"
)

// startEtcdLearner starts a cluster of one voting member and a learner, and returns the address of each.
func startEtcdLearner(t *testing.T) (voter, learner string) {
	t.Helper()
	ports, err := itest.FreePorts(2)
	if err != nil {
		t.Fatal(err)
	}
	voter, learner = itest.LocalAddr(ports[0]), itest.LocalAddr(ports[1])
	itest.Started(t, "etcd", func(ctx context.Context, image string) (*itest.Peers, error) {
		peers, err := itest.NewPeers(ctx)
		if err != nil {
			return nil, err
		}
		peerURL := func(member int) string { return "http://" + peers.Addr(member) + ":2380" }
		start := func(member int, more ...string) error {
			client := "http://" + itest.LocalAddr(ports[member])
			c, err := itest.Start(ctx, itest.Spec{Image: image, Ports: ports[member : member+1], Args: append([]string{
				"etcd", "--name", []string{"voter", "learner"}[member], "--data-dir", "/member", "--unsafe-no-fsync", "--log-level", "error",
				"--listen-client-urls", strings.Replace(client, "127.0.0.1", "0.0.0.0", 1), "--advertise-client-urls", client,
				"--listen-peer-urls", "http://0.0.0.0:2380", "--initial-advertise-peer-urls", peerURL(member),
			}, more...)})
			if err != nil {
				return err
			}
			if err := peers.Join(ctx, c, member); err != nil {
				return err
			}
			_, err = images.Docker(ctx, "restart", c.ID) // without the network a learner ends at once
			return err
		}
		if err := start(0, "--initial-cluster", "voter="+peerURL(0)); err != nil {
			return nil, err
		}
		client, err := clientv3.New(clientv3.Config{Endpoints: []string{voter, learner}, Logger: zap.NewNop()})
		if err != nil {
			return nil, err
		}
		defer client.Close()
		err = itest.Until(ctx, func(ctx context.Context) error { _, err := client.Status(ctx, voter); return err })
		if err != nil {
			return nil, err
		}
		if _, err := client.MemberAddAsLearner(ctx, []string{peerURL(1)}); err != nil {
			return nil, err
		}
		err = start(1, "--initial-cluster-state", "existing", "--initial-cluster", "voter="+peerURL(0)+",learner="+peerURL(1))
		if err != nil {
			return nil, err
		}
		return peers, itest.Until(ctx, func(ctx context.Context) error {
			status, err := client.Status(ctx, learner)
			if err == nil && !status.IsLearner {
				err = errors.New("it is no learner")
			}
			return err
		})
	})
	return voter, learner
}

// A learner answers what it is, and nothing else. The first Txn that comes there is refused once, and all
// goes to the voting member from then on.
func TestEtcdLearner(t *testing.T) {
	itest.NeedServers(t)
	t.Parallel()
	voter, learner := startEtcdLearner(t)
	asked := 0
	for n := 0; asked == 0 && n < 40; n++ { // each second one begins with the learner
		var mu sync.Mutex
		var there []string // what was sent to the learner
		note := func(
			ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption,
		) error {
			var at peer.Peer
			err := invoke(ctx, method, req, reply, conn, append(opts, grpc.Peer(&at))...)
			mu.Lock()
			defer mu.Unlock()
			if at.Addr != nil && at.Addr.String() == learner && !strings.HasSuffix(method, "/Status") {
				there = append(there, method)
			}
			return err
		}
		client, err := clientv3.New(clientv3.Config{
			Endpoints: []string{voter, learner}, Logger: zap.NewNop(), DialOptions: []grpc.DialOption{grpc.WithChainUnaryInterceptor(note)},
		})
		if err != nil {
			t.Fatal(err)
		}
		l, err := etcdbackend.New(t.Context(), client)
		if err != nil {
			t.Fatalf("New = %v", err)
		}
		itest.HandOver(t, l, l, step.LockName(t))
		step.Close(t, itest.WithClient{Locker: l, Client: client})
		if len(there) > 1 {
			t.Errorf("the learner was asked %d times (%q), want once at most", len(there), there)
		}
		asked += len(there)
	}
	if asked == 0 {
		t.Error("no request came to the learner: this test proves nothing")
	}
}
