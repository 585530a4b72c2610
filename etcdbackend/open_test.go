package etcdbackend_test

import (
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/etcdbackend"
)

func guardID(id int64) clientv3.LeaseID { return clientv3.LeaseID(id) }

func parse(t *testing.T, raw string) (etcdbackend.Settings, error) {
	t.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	return etcdbackend.ParseURL(u)
}

func TestURL(t *testing.T) {
	for _, c := range []struct {
		url            string
		endpoints      string
		prefix         string
		user, password string
		tls            bool
	}{
		{url: "etcd://", endpoints: "http://localhost:2379", prefix: "locker/"},
		{url: "etcd://h", endpoints: "http://h:2379", prefix: "locker/"},
		{url: "etcd://h:1/", endpoints: "http://h:1", prefix: "locker/"},
		{url: "etcd://h:1?prefix=billing/", endpoints: "http://h:1", prefix: "billing/"},
		{url: "etcd://h:1/?prefix=billing", endpoints: "http://h:1", prefix: "billing"},
		{url: "etcd://h:1?prefix=a/b/", endpoints: "http://h:1", prefix: "a/b/"},
		{url: "etcd://h:1?prefix=/a/", endpoints: "http://h:1", prefix: "/a/"},
		{url: "etcd://h:1?prefix=a%20b/", endpoints: "http://h:1", prefix: "a b/"},
		{url: "etcd://h1,h2,h3?prefix=p/", endpoints: "http://h1:2379 http://h2:2379 http://h3:2379", prefix: "p/"},
		{url: "etcd://h1:1,h2:2,h3:3", endpoints: "http://h1:1 http://h2:2 http://h3:3", prefix: "locker/"},
		{url: "etcd://[::1]:1", endpoints: "http://[::1]:1", prefix: "locker/"},
		{url: "etcd://[::1]?addr=[::2]:3&addr=h:4", endpoints: "http://[::1]:2379 http://[::2]:3 http://h:4", prefix: "locker/"},
		{url: "etcd://joe:p%40ss@h1,h2", endpoints: "http://h1:2379 http://h2:2379", prefix: "locker/", user: "joe", password: "p@ss"},
		{url: "etcds://joe:pass@h1,h2?prefix=p/", endpoints: "https://h1:2379 https://h2:2379", prefix: "p/", user: "joe", password: "pass", tls: true},
	} {
		s, err := parse(t, c.url)
		if err != nil {
			t.Errorf("%s: %v, want nil", c.url, err)
			continue
		}
		prefix, _ := s.Config()
		if got := strings.Join(s.Client.Endpoints, " "); got != c.endpoints || prefix != c.prefix ||
			s.Client.Username != c.user || s.Client.Password != c.password || (s.Client.TLS != nil) != c.tls {
			t.Errorf("%s was read as endpoints %s, prefix %q, %s:%s, TLS %v", c.url, got, prefix, s.Client.Username, s.Client.Password, s.Client.TLS != nil)
		}
	}
}

func TestURLParameters(t *testing.T) {
	s, err := parse(t, "etcd://h?ttl=1m30s")
	if err != nil {
		t.Fatal(err)
	}
	if _, ttl := s.Config(); ttl != "1m30s" {
		t.Errorf("TTL %s, want 1m30s", ttl)
	}
	if s, err = parse(t, "etcd://h"); err != nil {
		t.Fatal(err)
	}
	if _, ttl := s.Config(); ttl != "30s" {
		t.Errorf("without parameters: TTL %s, want 30s", ttl)
	}
	if c := s.Client; c.DialKeepAliveTime <= 0 || c.DialKeepAliveTimeout <= 0 {
		t.Errorf("a dead connection is looked for every %v, for %v: want both", c.DialKeepAliveTime, c.DialKeepAliveTimeout)
	}
}

// What is refused, without a connection, and without showing what may be secret.
func TestURLRefused(t *testing.T) {
	for raw, says := range map[string]string{
		"etcd:h":                            "want etcd://",
		"etcd://h#sesame":                   "want etcd://",
		"etcd://h/sesame":                   "?prefix=billing/",
		"etcd://h1,,h2":                     "a host is missing",
		"etcd://h1,":                        "a host is missing",
		"etcd://h1:1:2":                     "HOST:PORT",
		"etcd://joe@h":                      "want a name and a password",
		"etcd://:sesame@h":                  "want a name and a password",
		"etcd://h?addr=sesame":              "HOST:PORT",
		"etcd://h?addr=:1":                  "HOST:PORT",
		"etcd://h?addr=h:sesame":            "HOST:PORT",
		"etcd://h?addr=sesame/x:1":          "HOST:PORT",
		"etcd://h?ttl=sesame":               `"ttl"`,
		"etcd://h?ttl=0s":                   `"ttl"`,
		"etcd://h?ttl=1s":                   "want 2s to 5m0s",
		"etcd://h?ttl=301s":                 "want 2s to 5m0s",
		"etcd://h?prefix=x%0A":              "control character",
		"etcd://joe:pass@h?prefix=":         "at least one character",
		"etcd://h?prefix=x&prefix=y":        `"prefix"`,
		"etcd://h?lease_per_lock=true":      `"lease_per_lock"`,
		"etcd://h?TTL=3s":                   `"TTL"`,
		"etcd://h?ttl=3s&ttl=4s":            "twice",
		"etcd://joe:sesame@h?paswd=sesame":  `"paswd"`,
		"etcd://h?ca_file=/sesame":          "etcds://",
		"etcd://h?skip_verify=true":         "etcds://",
		"etcds://h?ca_file=/no/such/file":   "ca_file",
		"etcds://h?cert_file=/no/such/file": "cert_file and key_file",
		"etcd://h?%zz":                      "escaped",
	} {
		_, err := locker.Open(t.Context(), raw)
		var e *locker.Error
		if !errors.As(err, &e) || !errors.Is(err, locker.ErrOption) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want ErrOption that speaks of %s", raw, err, says)
		}
		if err != nil && strings.Contains(err.Error(), "sesame") && !strings.Contains(raw, "ca_file") {
			t.Errorf("%s: the error shows what may be secret: %v", raw, err)
		}
	}
}

func TestNewRefused(t *testing.T) {
	client := &clientv3.Client{} // it has no connection, and would panic if it was used
	for says, open := range map[string]func() (locker.Locker, error){
		"client":                 func() (locker.Locker, error) { return etcdbackend.New(t.Context(), nil) },
		"at least one character": func() (locker.Locker, error) { return etcdbackend.New(t.Context(), client, etcdbackend.WithPrefix("")) },
	} {
		if _, err := open(); !errors.Is(err, locker.ErrOption) || !strings.Contains(err.Error(), says) {
			t.Errorf("New = %v, want ErrOption that speaks of %s", err, says)
		}
	}
}

func TestURLWithCertificates(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := parse(t, "etcds://h?ca_file="+file); !errors.Is(err, locker.ErrOption) || !strings.Contains(err.Error(), "has no certificate") {
		t.Errorf("a file without a certificate: %v, want ErrOption", err)
	}
	s, err := parse(t, "etcds://h?server_name=other&skip_verify=true")
	if err != nil {
		t.Fatal(err)
	}
	if c := s.Client.TLS; c.ServerName != "other" || !c.InsecureSkipVerify {
		t.Errorf("the settings of TLS are %+v", c)
	}
}

func TestSchemes(t *testing.T) {
	for _, scheme := range []string{"etcd", "etcds"} {
		if !slices.Contains(locker.Schemes(), scheme) {
			t.Errorf("%s:// is not known: %v", scheme, locker.Schemes())
		}
	}
}

func FuzzURL(f *testing.F) {
	f.Add("etcd://joe:pass@h1:1,h2:2?prefix=p&ttl=3s")
	f.Add("etcds://h?server_name=x&skip_verify=1")
	f.Add("etcd://[::1]:1/?addr=[::2]:2&skip_verify=true")
	f.Fuzz(func(t *testing.T, raw string) {
		u, err := url.Parse(raw)
		if err != nil || u.Query().Has("ca_file") || u.Query().Has("cert_file") || u.Query().Has("key_file") {
			t.Skip()
		}
		s, err := etcdbackend.ParseURL(u)
		if err != nil {
			if !errors.Is(err, locker.ErrOption) {
				t.Errorf("%q: %v, want ErrOption", raw, err)
			}
			return
		}
		if len(s.Client.Endpoints) == 0 || (s.Client.Username == "") != (s.Client.Password == "") {
			t.Errorf("%q was read as %+v", raw, s.Client)
		}
		for _, e := range s.Client.Endpoints {
			if e, err := url.Parse(e); err != nil || e.Hostname() == "" || e.Port() == "" {
				t.Errorf("%q has the endpoint %v, %v", raw, e, err)
			}
		}
	})
}
