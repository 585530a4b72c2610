//go:build unix

package redis

import (
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance/step"
	"github.com/fencedlock/locker/integration/internal/itest"
	"github.com/fencedlock/locker/redisbackend"
)

func TestRedisThroughSocket(t *testing.T) {
	itest.NeedServers(t)
	s := Standalone(t)
	folder, err := os.MkdirTemp("", "redis") // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(folder)
	path := filepath.Join(folder, "s")
	relay(t, path, s.Nodes[0].Addr)
	u := url.URL{Scheme: "redis+unix", User: url.UserPassword("", Password), Path: path, RawQuery: "db=3"}
	l := step.CloseAtEnd(t, itest.OpenURL(t, u.String()))
	itest.HandOver(t, l, step.CloseAtEnd(t, itest.OpenURL(t, u.String())), step.LockName(t))

	name := step.LockName(t)
	step.Release(t, step.Acquire(t, step.CloseAtEnd(t, s.Open(t)), name)) // another database
	lease := step.Acquire(t, l, name)
	step.FreeWithin(t, 0, step.CloseAtEnd(t, s.Open(t)), name)
	step.Release(t, lease)
	u.User = url.UserPassword("", "open-sesame")
	itest.RefusedAtOpen(t, u.String(), "WRONGPASS")
	u.Path += "-"
	itest.RefusedAtOpen(t, u.String(), "no such file")
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
	itest.NeedServers(t)
	s := Standalone(t)
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
				o := &redis.Options{Addr: s.Nodes[0].Addr, Password: Password}
				change(o)
				client := redis.NewClient(o)
				l, err := redisbackend.New(t.Context(), client)
				if err != nil {
					t.Fatal(err)
				}
				return step.CloseAtEnd(t, itest.WithClient{Locker: l, Client: client})
			}
			l := open()
			if g := l.Guarantees(); g.Waiting != locker.WaitingHandOff {
				t.Errorf("Guarantees = %v, want a hand-off", g)
			}
			itest.HandOver(t, l, open(), step.LockName(t))
		})
	}
}

// The server requires client certificates, and the name in its own certificate differs from its
// address.
func TestRedisTLS(t *testing.T) {
	itest.NeedServers(t)
	ports, err := itest.FreePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	authority := itest.NewAuthority(t)
	cert, key := authority.Issue(t, "redis.example")
	lines := []string{
		"port 0", fmt.Sprint("tls-port ", ports[0]), "tls-auth-clients yes", "protected-mode no", "requirepass " + Password, "save \"\"",
		"tls-ca-cert-file /data/ca.pem", "tls-cert-file /data/cert.pem", "tls-key-file /data/key.pem",
	}
	_, err = itest.Start(t.Context(), itest.Spec{Image: "redis", Args: []string{"redis-server", "/data/redis.conf"}, Ports: ports, Files: map[string]string{
		"/data/redis.conf": strings.Join(lines, "\n") + "\n", "/data/ca.pem": authority.PEM, "/data/cert.pem": cert, "/data/key.pem": key,
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
	own, ownKey := authority.Issue(t, "client")
	good := url.Values{
		"ca_file": {file("ca.pem", authority.PEM)}, "server_name": {"redis.example"},
		"cert_file": {file("cert.pem", own)}, "key_file": {file("key.pem", ownKey)},
	}
	address := func(change func(url.Values)) string {
		query := make(url.Values)
		for name, value := range good {
			query[name] = value
		}
		change(query)
		u := url.URL{Scheme: "rediss", User: url.UserPassword("", Password), Host: itest.LocalAddr(ports[0]), RawQuery: query.Encode()}
		return u.String()
	}
	asIs := address(func(url.Values) {})
	step.Eventually(t, itest.ShortWait, func() error {
		l, err := locker.Open(t.Context(), asIs)
		if err == nil {
			err = l.Close()
		}
		return err
	})
	itest.HandOver(t, step.CloseAtEnd(t, itest.OpenURL(t, asIs)), step.CloseAtEnd(t, itest.OpenURL(t, asIs)), step.LockName(t))
	unverified := address(func(q url.Values) { q.Del("ca_file"); q.Del("server_name"); q.Set("skip_verify", "true") })
	step.FreeWithin(t, 0, step.CloseAtEnd(t, itest.OpenURL(t, unverified)), step.LockName(t))

	itest.RefusedAtOpen(t, address(func(q url.Values) { q.Del("server_name") }), "certificate")
	itest.RefusedAtOpen(t, address(func(q url.Values) { q.Set("server_name", "other.example") }), "other.example")
	itest.RefusedAtOpen(t, address(func(q url.Values) { q.Del("ca_file") }), "unknown authority")
	itest.RefusedAtOpen(t, address(func(q url.Values) { q.Set("ca_file", file("other.pem", itest.NewAuthority(t).PEM)) }), "certificate")
	itest.RefusedAtOpen(t, address(func(q url.Values) { q.Del("cert_file"); q.Del("key_file") }), "certificate")
	itest.RefusedAtOpen(t, itest.Changed(asIs, func(u *url.URL) { u.Scheme, u.RawQuery = "redis", "" }), "rediss://")
}
