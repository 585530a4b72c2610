//go:build unix

package etcd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance/step"
	"github.com/fencedlock/locker/etcdbackend"
	"github.com/fencedlock/locker/integration/internal/itest"
)

// secureSingleEtcd starts a cluster of one whose only user is root, and fills its history.
func secureSingleEtcd(t *testing.T, password string, writes int) (addr string) {
	t.Helper()
	addr = startSingleEtcd(t, "http", nil, append(newCluster(t), "--bcrypt-cost", "4")...)
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{addr}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	step.Eventually(t, step.Limit, func() error {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := client.Get(ctx, "any")
		return err
	})
	ctx := t.Context()
	for range writes {
		if _, err := client.Put(ctx, "any", ""); err != nil {
			t.Fatal(err)
		}
	}
	_, user := client.UserAdd(ctx, "root", password)
	_, role := client.UserGrantRole(ctx, "root", "root")
	_, auth := client.AuthEnable(ctx)
	if err := errors.Join(user, role, auth); err != nil {
		t.Fatal(err)
	}
	return addr
}

// One of the addresses leads to a server that refuses everything, and the Locker's own cluster
// can't be reached for a moment. The lease survives, and all operations continue.
func TestEtcdStrangerThatRefuses(t *testing.T) {
	itest.NeedServers(t)
	t.Parallel()
	for what, start := range map[string]func(*testing.T) string{
		"a cluster with other users": func(t *testing.T) string {
			return secureSingleEtcd(t, "other", 2000) // beyond what the logins of the own one refer to
		},
		"a server of something else": func(t *testing.T) string { return strangerAt(t, grpc.NewServer()) },
		"a proxy that forbids": func(t *testing.T) string {
			protocols := new(http.Protocols)
			protocols.SetUnencryptedHTTP2(true)
			return strangerAt(t, &http.Server{Protocols: protocols, Handler: http.HandlerFunc(
				func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) },
			)})
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			own, other := secureSingleEtcd(t, "own", 0), start(t)
			n := strangerNet{own: own}
			client, err := clientv3.New(clientv3.Config{
				Endpoints: []string{own, other}, Username: "root", Password: "own", Logger: zap.NewNop(),
				DialOptions: []grpc.DialOption{grpc.WithContextDialer(n.dial)},
			})
			if err != nil {
				t.Fatal(err)
			}
			l, err := etcdbackend.New(t.Context(), client)
			if err != nil {
				t.Fatal(err)
			}
			step.CloseAtEnd(t, itest.WithClient{Locker: l, Client: client})
			lease := step.Acquire(t, l, step.LockName(t), locker.WithTTL(2*TTL))
			n.cut()
			step.Eventually(t, TTL, func() error { // until the stranger has answered
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				_, err := locker.TryAcquire(ctx, l, step.LockName(t), locker.WithTTL(2*TTL))
				for _, word := range []string{"auth", "Unimplemented", "403"} {
					if err != nil && strings.Contains(err.Error(), word) {
						return nil
					}
				}
				return fmt.Errorf("TryAcquire = %w, want the stranger's refusal", err)
			})
			n.away.Store(false)
			step.FreeWithin(t, itest.ShortWait, l, step.LockName(t))
			step.Pass(t, 3*TTL)
			if err := lease.Err(); err != nil {
				t.Errorf("the lease is lost: %v", err)
			}
			step.FreeWithin(t, itest.ShortWait, l, step.LockName(t))
			step.Release(t, lease)
		})
	}
}

// strangerAt starts a server.
func strangerAt(t *testing.T, s interface{ Serve(net.Listener) error }) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = s.Serve(l) }()
	t.Cleanup(func() { _ = l.Close() })
	return l.Addr().String()
}

// strangerNet leads to the own cluster at first, and to the other address after cut.
type strangerNet struct {
	own         string
	away, other atomic.Bool
	mu          sync.Mutex
	conns       []net.Conn
}

func (n *strangerNet) dial(ctx context.Context, addr string) (net.Conn, error) {
	if addr == n.own && n.away.Load() || addr != n.own && !n.other.Load() {
		return nil, errors.New("not there")
	}
	c, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err == nil && addr == n.own {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.conns = append(n.conns, c)
	}
	return c, err
}

// cut ends the connections to the own cluster, which can't be reached until away is false.
func (n *strangerNet) cut() {
	n.other.Store(true)
	n.away.Store(true)
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, c := range n.conns {
		_ = c.Close()
	}
}
