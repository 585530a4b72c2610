//go:build unix

package etcd

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance/step"
	"github.com/fencedlock/locker/etcdbackend"
	"github.com/fencedlock/locker/integration/internal/itest"
)

// startSingleEtcd starts a cluster of one, with etcd's own timing and without users. scheme is that
// of its clients.
func startSingleEtcd(t *testing.T, scheme string, files map[string]string, more ...string) (addr string) {
	t.Helper()
	ports, err := itest.FreePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	args := append([]string{
		"etcd", "--data-dir", "/member", "--unsafe-no-fsync", "--log-level", "error",
		"--listen-client-urls", fmt.Sprint(scheme, "://0.0.0.0:", ports[0]), "--advertise-client-urls", scheme + "://" + itest.LocalAddr(ports[0]),
	}, more...)
	itest.Started(t, "etcd", func(ctx context.Context, image string) (*itest.Container, error) {
		return itest.Start(ctx, itest.Spec{Image: image, Args: args, Files: files, Ports: ports})
	})
	return itest.LocalAddr(ports[0])
}

// openWithRetry opens a Locker on a server that may just have been started.
func openWithRetry(t *testing.T, rawURL string) (l locker.Locker) {
	t.Helper()
	step.Eventually(t, step.Limit, func() (err error) {
		l, err = locker.Open(t.Context(), rawURL)
		return err
	})
	return step.CloseAtEnd(t, l)
}

// Programs configure their client as they like, and use it for other things.
func TestEtcdClients(t *testing.T) {
	itest.NeedServers(t)
	addr := startSingleEtcd(t, "http", nil)
	openWithRetry(t, "etcd://"+addr)
	for what, change := range map[string]func(*clientv3.Config){
		"as it is":            func(*clientv3.Config) {},
		"an address by name":  func(c *clientv3.Config) { c.Endpoints = []string{"http://" + addr} },
		"retries":             func(c *clientv3.Config) { c.MaxUnaryRetries, c.BackoffWaitBetween = 20, time.Millisecond },
		"finds members":       func(c *clientv3.Config) { c.AutoSyncInterval = 2 * time.Second }, // so that none is dialled at the next time
		"one that is no more": func(c *clientv3.Config) { c.Endpoints = []string{"127.0.0.1:1", addr, "no-such-host.invalid:2379"} },
		"pings":               func(c *clientv3.Config) { c.DialKeepAliveTime, c.PermitWithoutStream = time.Second, true },
	} {
		t.Run(what, func(t *testing.T) {
			open := func() (locker.Locker, *clientv3.Client) {
				config := clientv3.Config{Endpoints: []string{addr}, Logger: zap.NewNop()}
				change(&config)
				client, err := clientv3.New(config)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = client.Close() })
				l, err := etcdbackend.New(t.Context(), client)
				if err != nil {
					t.Fatal(err)
				}
				if config.AutoSyncInterval > 0 { // then it has other addresses, and the Locker follows
					step.Eventually(t, step.Limit, func() error {
						if slices.Equal(client.Endpoints(), config.Endpoints) {
							return errors.New("the client has found nothing")
						}
						return nil
					})
				}
				return step.CloseAtEnd(t, l), client
			}
			l, client := open()
			other, _ := open()
			if g := l.Guarantees(); g.Tolerance != locker.ToleranceNone {
				t.Errorf("a cluster of one survives the loss of: %v", g.Tolerance)
			}
			itest.HandOver(t, l, other, step.LockName(t))
			if err := l.Close(); err != nil {
				t.Errorf("Close = %v", err)
			}
			if _, err := client.Get(t.Context(), "any"); err != nil {
				t.Errorf("the caller's client after Close: %v, want it to be as before", err)
			}
		})
	}
}

// The server requires client certificates, and the name in its own certificate differs from its
// address.
func TestEtcdTLS(t *testing.T) {
	itest.NeedServers(t)
	authority := itest.NewAuthority(t)
	cert, key := authority.Issue(t, "etcd.example")
	addr := startSingleEtcd(t, "https", map[string]string{"/ca.pem": authority.PEM, "/cert.pem": cert, "/key.pem": key},
		"--cert-file", "/cert.pem", "--key-file", "/key.pem", "--trusted-ca-file", "/ca.pem", "--client-cert-auth")
	folder := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	own, ownKey := authority.Issue(t, "client")
	good := url.Values{
		"ca_file": {file("ca.pem", authority.PEM)}, "server_name": {"etcd.example"},
		"cert_file": {file("cert.pem", own)}, "key_file": {file("key.pem", ownKey)},
	}
	address := func(change func(url.Values)) string {
		query := make(url.Values)
		for name, value := range good {
			query[name] = value
		}
		change(query)
		u := url.URL{Scheme: "etcds", Host: addr, RawQuery: query.Encode()}
		return u.String()
	}
	asIs := address(func(url.Values) {})
	itest.HandOver(t, openWithRetry(t, asIs), openWithRetry(t, asIs), step.LockName(t))
	unverified := address(func(q url.Values) { q.Del("ca_file"); q.Del("server_name"); q.Set("skip_verify", "true") })
	step.FreeWithin(t, 0, openWithRetry(t, unverified), step.LockName(t))

	for what, bad := range map[string]string{
		"no name":           address(func(q url.Values) { q.Del("server_name") }),
		"another name":      address(func(q url.Values) { q.Set("server_name", "other.example") }),
		"no authority":      address(func(q url.Values) { q.Del("ca_file") }),
		"another authority": address(func(q url.Values) { q.Set("ca_file", file("other.pem", itest.NewAuthority(t).PEM)) }),
		"no certificate":    address(func(q url.Values) { q.Del("cert_file"); q.Del("key_file") }),
		"no TLS":            "etcd://" + addr,
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 4*itest.ShortWait)
			defer cancel()
			l, err := locker.Open(ctx, bad)
			if err == nil {
				_ = l.Close()
				t.Fatal("Open = a Locker, want an error")
			}
			t.Logf("Open = %v", err)
		})
	}
}
