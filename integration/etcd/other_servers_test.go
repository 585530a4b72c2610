//go:build unix

package etcd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance/proxy"
	"github.com/fencedlock/locker/conformance/step"
	"github.com/fencedlock/locker/etcdbackend"
	"github.com/fencedlock/locker/integration/internal/itest"
)

// newCluster is what a cluster of one is started with that isn't taken for another one.
func newCluster(t *testing.T) []string {
	return []string{"--initial-cluster-token", step.LockName(t)}
}

// waiting gets the event that a call waits.
type waiting chan struct{}

func (w waiting) Observe(context.Context, locker.Event) {
	select {
	case w <- struct{}{}:
	default: // it has been seen
	}
}

// A member of another cluster is among the addresses, and the Locker's own cluster can't be reached
// from it. Nobody is let in there, and all goes on when the own cluster is back.
func TestEtcdAnotherCluster(t *testing.T) {
	itest.NeedServers(t)
	t.Parallel()
	own, other := startSingleEtcd(t, "http", nil, newCluster(t)...), startSingleEtcd(t, "http", nil, newCluster(t)...)
	l, stranger := openWithRetry(t, "etcd://"+own), openWithRetry(t, "etcd://"+other)
	itest.RefusedAtOpen(t, "etcd://"+own+","+other, "different clusters", own, other)
	itest.RefusedAtOpen(t, "etcd://"+other+","+own, "different clusters", own, other)

	network := proxy.Start(t)
	var reached atomic.Bool // the other cluster
	dial := func(ctx context.Context, addr string) (net.Conn, error) {
		switch {
		case addr == own:
			return network.Dial(ctx, "tcp", addr)
		case !reached.Load():
			return nil, errors.New("not there yet")
		}
		var d net.Dialer
		return d.DialContext(ctx, "tcp", addr)
	}
	open := func() (l, closed locker.Locker) {
		client, err := clientv3.New(clientv3.Config{
			Endpoints: []string{own, other}, Logger: zap.NewNop(), DialOptions: []grpc.DialOption{grpc.WithContextDialer(dial)},
		})
		if err != nil {
			t.Fatal(err)
		}
		l, err = etcdbackend.New(t.Context(), client)
		if err != nil {
			t.Fatal(err)
		}
		return l, step.CloseAtEnd(t, itest.WithClient{Locker: l, Client: client})
	}
	_, rival := open()
	queued, _ := open()
	waits := make(waiting, 1)
	if _, err := locker.Observe(queued, waits, locker.EventWaiting); err != nil {
		t.Fatal(err)
	}

	lease := step.Acquire(t, l, step.LockName(t))
	mine := step.Acquire(t, rival, step.LockName(t), locker.WithTTL(TTL))
	waiter := step.StartAcquire(t, queued, lease.Name(), locker.WithTTL(time.Minute)) // its place outlives the cut
	select {
	case <-waits: // it has the answer to its request; a first request that has none fails
	case <-time.After(itest.ShortWait):
		t.Fatal("it doesn't wait")
	}
	reached.Store(true)
	network.Cut()
	// The client pauses before it connects to the other cluster again. From then on each error names it.
	for began, named := time.Now(), 0; named < 3; {
		ctx, cancel := context.WithTimeout(t.Context(), 2*itest.ShortWait)
		got, err := locker.TryAcquire(ctx, rival, lease.Name(), locker.WithTTL(TTL))
		cancel()
		if err == nil {
			t.Fatalf("it is let in at another cluster, with token %v, and the holder has %v, Err %v", got.Token(), lease.Token(), lease.Err())
		}
		t.Logf("TryAcquire = %v", err)
		switch names := strings.Contains(err.Error(), "a member of another cluster: "+other); {
		case errors.Is(err, locker.ErrHeld) || !names && (named > 0 || time.Since(began) > step.Limit):
			t.Fatalf("TryAcquire = %v, want it to name the other cluster's member", err)
		case names:
			named++
		}
	}
	step.LostWithin(t, TTL+itest.ShortWait, mine)
	waiter.WantPending(t)
	step.FreeWithin(t, 0, stranger, lease.Name())
	network.Heal()
	step.FreeWithin(t, itest.ShortWait, rival, step.LockName(t))
	step.WantLive(t, lease, rival)
	waiter.WantPending(t)
	step.Release(t, lease)
	step.Release(t, waiter.Granted(t, TTL+itest.ShortWait))
}

// etcd grpc-proxy answers with what it makes of other answers. It is refused when it can be known,
// which is when the Locker is opened, or when it first watches something.
func TestEtcdGRPCProxy(t *testing.T) {
	itest.NeedServers(t)
	t.Parallel()
	ports, err := itest.FreePorts(3)
	if err != nil {
		t.Fatal(err)
	}
	server, err := itest.Start(t.Context(), itest.Spec{Image: "etcd", Ports: ports, Args: []string{
		"etcd", "--data-dir", "/member", "--unsafe-no-fsync", "--log-level", "error",
		"--listen-client-urls", fmt.Sprint("http://0.0.0.0:", ports[0]), "--advertise-client-urls", "http://" + itest.LocalAddr(ports[0]),
	}})
	if err != nil {
		t.Fatal(err)
	}
	openWithRetry(t, "etcd://"+itest.LocalAddr(ports[0]))
	for i, advertised := range []string{"127.0.0.1:23790", ""} { // the first one is the default
		if _, err := itest.Start(t.Context(), itest.Spec{Image: "etcd", Inside: server, Args: []string{
			"etcd", "grpc-proxy", "start", "--endpoints", itest.LocalAddr(ports[0]), "--listen-addr", fmt.Sprint("0.0.0.0:", ports[i+1]),
			"--advertise-client-url", advertised,
		}}); err != nil {
			t.Fatal(err)
		}
		client, err := clientv3.New(clientv3.Config{Endpoints: []string{itest.LocalAddr(ports[i+1])}, Logger: zap.NewNop()})
		if err != nil {
			t.Fatal(err)
		}
		step.Eventually(t, step.Limit, func() error {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err := client.Get(ctx, "any")
			return err
		})
		_ = client.Close()
	}
	itest.RefusedAtOpen(t, "etcd://"+itest.LocalAddr(ports[1]), "grpc-proxy", itest.LocalAddr(ports[1]))

	l, err := locker.Open(t.Context(), "etcd://"+itest.LocalAddr(ports[2])+"?ttl=6s")
	if err != nil {
		t.Fatalf("Open = %v, want a Locker: nothing tells this proxy from a member so far", err)
	}
	step.CloseAtEnd(t, l)
	lease := step.Acquire(t, l, step.LockName(t))
	step.Eventually(t, itest.ShortWait, func() error {
		_, err := locker.TryAcquire(t.Context(), l, step.LockName(t))
		if !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "grpc-proxy") {
			return fmt.Errorf("TryAcquire = %w, want an error that names the proxy", err)
		}
		return nil
	})
	step.LostWithin(t, 6*time.Second+itest.ShortWait, lease)
}

// A cluster whose transactions may not be as large as a renewal is refused.
func TestEtcdSmallTransactions(t *testing.T) {
	itest.NeedServers(t)
	t.Parallel()
	addr := startSingleEtcd(t, "http", nil, "--max-txn-ops", "127")
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{addr}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	step.Eventually(t, step.Limit, func() error {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := client.Get(ctx, "any")
		return err
	})
	itest.RefusedAtOpen(t, "etcd://"+addr, "--max-txn-ops", "128")
	openWithRetry(t, "etcd://"+startSingleEtcd(t, "http", nil, "--max-txn-ops", "128"))
}
