//go:build unix

package integration

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/redisbackend"
)

// The ways in which a client may reach Redis, beside a plain connection by URL.

// handsOver takes a lock, renews it and hands it to one that waits, which takes every kind of connection that there is.
func handsOver(t *testing.T, l, other locker.Locker, name string) {
	t.Helper()
	lease := acquire(t, l, name)
	next := wait(t, other, name)
	free(t, 0, l, name+"-")
	if err := lease.Renew(t.Context()); err != nil {
		t.Errorf("Renew = %v, want nil", err)
	}
	next.pending(t)
	release(t, lease)
	release(t, next.granted(t, soon))
}

func TestRedisThroughSocket(t *testing.T) {
	needServers(t)
	s := redisStandalone(t)
	folder, err := os.MkdirTemp("", "redis") // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(folder)
	path := filepath.Join(folder, "s")
	relay(t, path, s.nodes[0].addr)
	u := url.URL{Scheme: "redis+unix", User: url.UserPassword("", redisPassword), Path: path, RawQuery: "db=3"}
	l := keep(t, openURL(t, u.String()))
	handsOver(t, l, keep(t, openURL(t, u.String())), lockName(t))

	name := lockName(t)
	release(t, acquire(t, keep(t, s.open(t)), name)) // another database
	lease := acquire(t, l, name)
	free(t, 0, keep(t, s.open(t)), name)
	release(t, lease)
	u.User = url.UserPassword("", "open-sesame")
	refusedAtOpen(t, u.String(), "WRONGPASS")
	u.Path += "-"
	refusedAtOpen(t, u.String(), "no such file")
}

// relay joins the connections to a socket with connections to an address, until the test is over.
func relay(t *testing.T, path, addr string) {
	t.Helper()
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	t.Cleanup(all.Wait)
	t.Cleanup(func() { _ = listener.Close() })
	all.Go(func() {
		for {
			in, err := listener.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", addr)
			if err != nil {
				_ = in.Close()
				continue
			}
			end := func() { _, _ = in.Close(), out.Close() }
			t.Cleanup(end) // go-redis forgets to close a connection that the server has refused
			all.Go(func() { defer end(); _, _ = io.Copy(in, out) })
			all.Go(func() { defer end(); _, _ = io.Copy(out, in) })
		}
	})
}

func TestRedisClients(t *testing.T) {
	needServers(t)
	s := redisStandalone(t)
	for what, change := range map[string]func(*redis.Options){
		"RESP2":                func(o *redis.Options) { o.Protocol = 2 },
		"one connection":       func(o *redis.Options) { o.PoolSize, o.MaxActiveConns = 1, 1 },
		"no deadlines":         func(o *redis.Options) { o.ReadTimeout, o.WriteTimeout = -2, -2 },
		"minds contexts":       func(o *redis.Options) { o.ContextTimeoutEnabled = true },
		"pool for pipelines":   func(o *redis.Options) { o.PipelineReadBufferSize = 1 << 16 },
		"caches on its side":   func(o *redis.Options) { o.ClientSideCacheConfig = &redis.ClientSideCacheConfig{} },
		"retries by all means": func(o *redis.Options) { o.MaxRetries, o.DialerRetries = 20, 20 },
	} {
		t.Run(what, func(t *testing.T) {
			open := func() locker.Locker {
				o := &redis.Options{Addr: s.nodes[0].addr, Password: redisPassword}
				change(o)
				client := redis.NewClient(o)
				l, err := redisbackend.New(t.Context(), client)
				if err != nil {
					t.Fatal(err)
				}
				return keep(t, withClient{l, client})
			}
			l := open()
			if g := l.Guarantees(); g.Waiting != locker.WaitingHandOff {
				t.Errorf("Guarantees = %v, want a hand-off", g)
			}
			handsOver(t, l, open(), lockName(t))
		})
	}
}

// A server that wants certificates from its clients, and is called otherwise than the address by which it is reached.
func TestRedisTLS(t *testing.T) {
	needServers(t)
	ports, err := freePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	authority := newAuthority(t)
	cert, key := authority.issue(t, "redis.example")
	lines := []string{
		"port 0", fmt.Sprint("tls-port ", ports[0]), "tls-auth-clients yes", "protected-mode no", "requirepass " + redisPassword, "save \"\"",
		"tls-ca-cert-file /data/ca.pem", "tls-cert-file /data/cert.pem", "tls-key-file /data/key.pem",
	}
	_, err = start(t.Context(), run{image: "redis", args: []string{"redis-server", "/data/redis.conf"}, ports: ports, files: map[string]string{
		"/data/redis.conf": strings.Join(lines, "\n") + "\n", "/data/ca.pem": authority.pem, "/data/cert.pem": cert, "/data/key.pem": key,
	}})
	if err != nil {
		t.Fatal(err)
	}

	folder := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	own, ownKey := authority.issue(t, "client")
	good := url.Values{
		"ca_file": {file("ca.pem", authority.pem)}, "server_name": {"redis.example"},
		"cert_file": {file("cert.pem", own)}, "key_file": {file("key.pem", ownKey)},
	}
	address := func(change func(url.Values)) string {
		query := make(url.Values)
		for name, value := range good {
			query[name] = value
		}
		change(query)
		u := url.URL{Scheme: "rediss", User: url.UserPassword("", redisPassword), Host: local(ports[0]), RawQuery: query.Encode()}
		return u.String()
	}
	asIs := address(func(url.Values) {})
	eventually(t, soon, func() error {
		l, err := locker.Open(t.Context(), asIs)
		if err == nil {
			err = l.Close()
		}
		return err
	})
	handsOver(t, keep(t, openURL(t, asIs)), keep(t, openURL(t, asIs)), lockName(t))
	unverified := address(func(q url.Values) { q.Del("ca_file"); q.Del("server_name"); q.Set("skip_verify", "true") })
	free(t, 0, keep(t, openURL(t, unverified)), lockName(t))

	refusedAtOpen(t, address(func(q url.Values) { q.Del("server_name") }), "certificate")
	refusedAtOpen(t, address(func(q url.Values) { q.Set("server_name", "other.example") }), "other.example")
	refusedAtOpen(t, address(func(q url.Values) { q.Del("ca_file") }), "unknown authority")
	refusedAtOpen(t, address(func(q url.Values) { q.Set("ca_file", file("other.pem", newAuthority(t).pem)) }), "certificate")
	refusedAtOpen(t, address(func(q url.Values) { q.Del("cert_file"); q.Del("key_file") }), "certificate")
	refusedAtOpen(t, changed(asIs, func(u *url.URL) { u.Scheme, u.RawQuery = "redis", "" }), "rediss://")
}

// authority issues certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  string
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{cert: &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "authority"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}}
	a.pem, _ = a.make(t, a.cert)
	return a
}

func (a *authority) issue(t *testing.T, name string) (cert, key string) {
	t.Helper()
	return a.make(t, &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour),
		DNSNames: []string{name}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	})
}

func (a *authority) make(t *testing.T, cert *x509.Certificate) (certPEM, keyPEM string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if a.key == nil {
		a.key = key
	}
	der, err := x509.CreateCertificate(rand.Reader, cert, a.cert, key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}))
}
