package redisconn_test

import (
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fencedlock/locker/driver/kit"
	"github.com/fencedlock/locker/internal/redisconn"
)

func TestTarget(t *testing.T) {
	for _, c := range []struct {
		url    string
		params redisconn.Params
		form   redisconn.Form
		addrs  []string
		db     int
		tls    bool
	}{
		{"redis://a", redisconn.Params{}, redisconn.Form{}, []string{"a:6379"}, 0, false},
		{"redis://a:1,b:2/3", redisconn.Params{Addrs: []string{"c:3"}}, redisconn.Form{}, []string{"a:1", "b:2", "c:3"}, 3, false},
		{"redis://", redisconn.Params{DB: 2}, redisconn.Form{DefaultHost: "localhost"}, []string{"localhost:6379"}, 2, false},
		{"redis://:1", redisconn.Params{}, redisconn.Form{DefaultHost: "localhost"}, []string{"localhost:1"}, 0, false},
		{"redis://", redisconn.Params{}, redisconn.Form{}, nil, 0, false},
		{"rediss://[::1]:1", redisconn.Params{}, redisconn.Form{}, []string{"[::1]:1"}, 0, true},
		{"valkeys://a", redisconn.Params{}, redisconn.Form{}, []string{"a:6379"}, 0, true},
		{"fakes://a", redisconn.Params{}, redisconn.Form{Secure: "fakes"}, []string{"a:6379"}, 0, true},
		{"redis+unix:///run/r.sock", redisconn.Params{DB: 4}, redisconn.Form{}, []string{"/run/r.sock"}, 4, false},
	} {
		u, err := url.Parse(c.url)
		if err != nil {
			t.Fatal(err)
		}
		got, err := c.params.Target(u, c.form)
		if err != nil || !slices.Equal(got.Addrs, c.addrs) || got.DB != c.db || (got.TLS != nil) != c.tls {
			t.Errorf("%s was read as %+v, %v, want %v, database %d, TLS: %v", c.url, got, err, c.addrs, c.db, c.tls)
		}
		servers := got.Servers()
		if len(servers) != len(c.addrs) {
			t.Fatalf("%s: %d servers, want %d", c.url, len(servers), len(c.addrs))
		}
		for i, o := range servers {
			if o.Addr != c.addrs[i] || o.DB != c.db || o.MaxRetries != -1 || o.DialerRetries != 1 || !o.ContextTimeoutEnabled || o.ConnMaxIdleTime != time.Minute ||
				(o.Network == "unix") != strings.HasPrefix(o.Addr, "/") || (o.TLSConfig != nil) != c.tls {
				t.Errorf("%s: the settings of a server are %+v", c.url, o)
			}
		}
	}
}

func TestTargetRefused(t *testing.T) {
	for _, c := range []struct {
		url    string
		params redisconn.Params
		says   string
	}{
		{"redis:sesame", redisconn.Params{}, "want FORM"},
		{"redis://a#sesame", redisconn.Params{}, "want FORM"},
		{"redis://a,,b", redisconn.Params{}, "invalid host"},
		{"redis://,a", redisconn.Params{}, "invalid host"},
		{"redis://a:0", redisconn.Params{}, "65535"},
		{"redis://a", redisconn.Params{Addrs: []string{"sesame"}}, "HOST:PORT"},
		{"redis://a", redisconn.Params{Addrs: []string{"b:65536"}}, "HOST:PORT"},
		{"redis://a", redisconn.Params{PoolSize: -1}, "pool_size"},
		{"redis://a", redisconn.Params{PoolSize: 100_001}, "pool_size"},
		{"redis://a", redisconn.Params{DB: -1}, "invalid db"},
		{"redis://a/sesame", redisconn.Params{}, "number of a database"},
		{"redis://a/1", redisconn.Params{DB: 2}, "different databases"},
		{"redis://a", redisconn.Params{TLS: kit.TLSFiles{SkipVerify: true}}, "rediss://"},
		{"valkey://a", redisconn.Params{TLS: kit.TLSFiles{SkipVerify: true}}, "valkeys://"},
		{"redis+unix://a/s", redisconn.Params{}, "three slashes"},
		{"redis+unix:///", redisconn.Params{}, "three slashes"},
		{"redis+unix:///s", redisconn.Params{Addrs: []string{"a:1"}}, "socket"},
		{"redis+unix:///s", redisconn.Params{DB: -1}, "invalid db"},
	} {
		u, err := url.Parse(c.url)
		if err != nil {
			t.Fatal(err)
		}
		got, err := c.params.Target(u, redisconn.Form{Want: "FORM", DefaultHost: "localhost"})
		if err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "sesame") {
			t.Errorf("%s, %+v: %+v, %v, want an error that says %q, without secrets", c.url, c.params, got, err, c.says)
		}
	}
}
