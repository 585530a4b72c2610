//go:build unix

package zk

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"math"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance/step"
	"github.com/fencedlock/locker/integration/internal/itest"
	"github.com/fencedlock/locker/internal/zkconn"
	"github.com/fencedlock/locker/zkbackend"
)

// startZkTLS starts an ensemble that requires client certificates. The name in its own certificate
// differs from the addresses of the servers.
func startZkTLS(t *testing.T, authority *itest.Authority) *Service {
	t.Helper()
	cert, key := authority.Issue(t, "zk.example")
	return itest.Started(t, "zookeeper", func(ctx context.Context, image string) (*Service, error) {
		s, err := newZkEnsemble(ctx, image, zkServers, zkTick, "initLimit=20", "syncLimit=8", "maxSessionTimeout=60000",
			"serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory", "ssl.clientAuth=need",
			"ssl.keyStore.location=/own.pem", "ssl.keyStore.type=PEM", "ssl.trustStore.location=/ca.pem", "ssl.trustStore.type=PEM")
		if err != nil {
			return nil, err
		}
		ports, err := itest.FreePorts(zkServers)
		if err != nil {
			return nil, err
		}
		for i, server := range s.Servers {
			server.secure = ports[i]
		}
		s.flags = []string{nettyClasses()}
		s.options = []zkbackend.Option{zkbackend.WithTick(zkTick)}
		s.files = map[string]string{"/own.pem": key + cert, "/ca.pem": authority.PEM}
		return s, s.found(ctx)
	})
}

// nettyClasses adds what Debian's ZooKeeper doesn't find, though it is installed with it. Where it
// isn't there, it isn't missing.
func nettyClasses() string {
	var jars []string
	for _, part := range []string{"buffer", "codec", "common", "handler", "resolver", "transport", "transport-native-epoll", "transport-native-unix-common"} {
		jars = append(jars, "/usr/share/java/netty-"+part+".jar")
	}
	return "-Xbootclasspath/a:" + strings.Join(jars, ":")
}

// TestZkTLS tests zks://: a session moves from server to server by TLS, and its leases survive.
func TestZkTLS(t *testing.T) {
	itest.NeedServers(t)
	authority := itest.NewAuthority(t)
	s := startZkTLS(t, authority)
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
		"ca_file": {file("ca.pem", authority.PEM)}, "server_name": {"zk.example"},
		"cert_file": {file("cert.pem", own)}, "key_file": {file("key.pem", ownKey)}, "tick": {zkTick.String()},
	}
	var hosts []string
	for _, server := range s.Servers {
		hosts = append(hosts, itest.LocalAddr(server.secure))
	}
	address := func(change func(url.Values)) string {
		query := make(url.Values)
		for name, value := range good {
			query[name] = value
		}
		change(query)
		u := url.URL{Scheme: "zks", User: url.UserPassword(zkUser, zkPassword), Host: strings.Join(hosts, ","), RawQuery: query.Encode()}
		return u.String()
	}
	asIs := address(func(url.Values) {})
	l, other := step.CloseAtEnd(t, itest.OpenURL(t, asIs)), step.CloseAtEnd(t, itest.OpenURL(t, asIs))
	itest.HandOver(t, l, other, step.LockName(t))
	unverified := address(func(q url.Values) { q.Del("ca_file"); q.Del("server_name"); q.Set("skip_verify", "true") })
	step.FreeWithin(t, 0, step.CloseAtEnd(t, itest.OpenURL(t, unverified)), step.LockName(t))

	t.Run("a session moves", func(t *testing.T) {
		lease := step.Acquire(t, l, step.LockName(t))
		waiter := step.StartAcquire(t, other, lease.Name())
		step.Eventually(t, itest.ShortWait, func() error { return s.waiting(t, lease.Name(), 1) })
		for _, server := range s.Servers {
			itest.Must(t, func(ctx context.Context) error {
				return errors.Join(s.docker(ctx, "stop", server), s.docker(ctx, "start", server), s.wait(ctx))
			})
		}
		step.Eventually(t, itest.ShortWait, func() error { return lease.Renew(t.Context()) })
		waiter.WantPending(t)
		step.Release(t, lease)
		step.Release(t, waiter.Granted(t, itest.ShortWait))
	})
	t.Run("a session is closed", func(t *testing.T) {
		pair, err := tls.X509KeyPair([]byte(own), []byte(ownKey))
		if err != nil {
			t.Fatal(err)
		}
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM([]byte(authority.PEM))
		s.closes(t, hosts, zkconn.TLSDialer(&tls.Config{RootCAs: roots, ServerName: "zk.example", Certificates: []tls.Certificate{pair}}))
		s.closes(t, s.Addrs(), s.counter.dial)
		l, name := itest.OpenURL(t, asIs), step.LockName(t)
		step.Acquire(t, l, name, locker.WithTTL(zkLongTTL))
		waiter := step.StartAcquire(t, other, name)
		step.Eventually(t, itest.ShortWait, func() error { return s.waiting(t, name, 1) })
		step.Close(t, l)
		step.Release(t, waiter.Granted(t, itest.ShortWait))
	})
	t.Run("answers are lost", func(t *testing.T) { // of servers that use Netty for their connections, as TLS needs it
		l, network := s.linked(t, zkbackend.WithDefaultTTL(TTL))
		step.CloseAtEnd(t, l)
		x := s.silence(t, l, other, func() { network.Drop(math.MaxInt) })
		network.Heal()
		x.heard(t, s, l)
	})
	t.Run("refused", func(t *testing.T) {
		for what, bad := range map[string]struct{ url, says string }{
			"no name":           {address(func(q url.Values) { q.Del("server_name") }), "certificate"},
			"another name":      {address(func(q url.Values) { q.Set("server_name", "other.example") }), "certificate"},
			"no authority":      {address(func(q url.Values) { q.Del("ca_file") }), "certificate"},
			"another authority": {address(func(q url.Values) { q.Set("ca_file", file("other.pem", itest.NewAuthority(t).PEM)) }), "certificate"},
			"no certificate":    {address(func(q url.Values) { q.Del("cert_file"); q.Del("key_file") }), "certificate"},
			"no port for TLS":   {itest.Changed(asIs, func(u *url.URL) { u.Host = itest.LocalAddr(s.Servers[0].Port) }), "zk://"},
			"no TLS":            {itest.Changed(asIs, func(u *url.URL) { u.Scheme, u.RawQuery = "zk", "" }), "zks://"},
		} {
			t.Run(what, func(t *testing.T) {
				t.Parallel()
				ctx, cancel := context.WithTimeout(t.Context(), 4*itest.ShortWait)
				defer cancel()
				l, err := locker.Open(ctx, bad.url)
				if err == nil {
					_ = l.Close()
					t.Fatal("Open = a Locker, want an error")
				}
				t.Logf("Open = %v", err)
				if !strings.Contains(err.Error(), bad.says) || strings.Contains(err.Error(), zkPassword) {
					t.Errorf("Open = %v, want an error that speaks of %q and shows no password", err, bad.says)
				}
			})
		}
	})
}
