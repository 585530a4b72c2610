package redisbackend_test

import (
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/redisbackend"
)

func parse(t *testing.T, raw string) (redisbackend.Settings, error) {
	t.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	return redisbackend.ParseURL(u)
}

func TestURL(t *testing.T) {
	for _, c := range []struct {
		url                string
		addrs              string
		user, password     string
		db                 int
		master             string
		sentinelUser, pass string
		cluster, tls       bool
	}{
		{url: "redis://", addrs: "localhost:6379"},
		{url: "redis://h", addrs: "h:6379"},
		{url: "redis://h:1/", addrs: "h:1"},
		{url: "redis://h:1/3", addrs: "h:1", db: 3},
		{url: "redis://h:1?db=3", addrs: "h:1", db: 3},
		{url: "redis://h:1/3?db=3", addrs: "h:1", db: 3},
		{url: "redis://[::1]:1", addrs: "[::1]:1"},
		{url: "redis://:p%40ss@h", addrs: "h:6379", password: "p@ss"},
		{url: "redis://joe:pass@h", addrs: "h:6379", user: "joe", password: "pass"},
		{url: "rediss://joe:pass@h:1/2", addrs: "h:1", user: "joe", password: "pass", db: 2, tls: true},
		{url: "redis+unix:///run/redis.sock", addrs: "/run/redis.sock"},
		{url: "redis+unix://joe:pass@/run/redis.sock?db=4", addrs: "/run/redis.sock", user: "joe", password: "pass", db: 4},
		{url: "redis://s1:26379/5?master_name=m&addr=s2:26379&addr=s3:26379", addrs: "s1:26379 s2:26379 s3:26379", db: 5, master: "m"},
		{url: "redis://su:sp@s1?master_name=m&username=joe&password=p%26w", addrs: "s1:6379", user: "joe", password: "p&w", master: "m", sentinelUser: "su", pass: "sp"},
		{url: "redis://joe:pass@n1:7000?cluster=true&addr=n2:7000&addr=[::1]:7001", addrs: "n1:7000 n2:7000 [::1]:7001", user: "joe", password: "pass", cluster: true},
		{url: "valkey://joe:pass@h:65535/2", addrs: "h:65535", user: "joe", password: "pass", db: 2},
		{url: "valkeys://h", addrs: "h:6379", tls: true},
		{url: "rediss://n1:7000?cluster=1", addrs: "n1:7000", cluster: true, tls: true},
	} {
		s, err := parse(t, c.url)
		if err != nil {
			t.Errorf("%s: %v, want nil", c.url, err)
			continue
		}
		o := s.Options
		if got := strings.Join(o.Addrs, " "); got != c.addrs || o.Username != c.user || o.Password != c.password || o.DB != c.db ||
			o.MasterName != c.master || o.SentinelUsername != c.sentinelUser || o.SentinelPassword != c.pass ||
			o.IsClusterMode != c.cluster || (o.TLSConfig != nil) != c.tls {
			t.Errorf("%s was read as %+v", c.url, o)
		}
		client := redis.NewUniversalClient(&o)
		if _, cluster := client.(*redis.ClusterClient); cluster != c.cluster {
			t.Errorf("%s: the client is a %T", c.url, client)
		}
		if err := client.Close(); err != nil {
			t.Errorf("%s: %v", c.url, err)
		}
	}
}

func TestURLParameters(t *testing.T) {
	s, err := parse(t, "redis://h?prefix=billing:&ttl=1m30s&allow_eviction=true&pool_size=3")
	if err != nil {
		t.Fatal(err)
	}
	if prefix, ttl, allow := s.Config(); prefix != "billing:" || ttl != "1m30s" || !allow || s.Options.PoolSize != 3 {
		t.Errorf("prefix %q, TTL %s, allow eviction %v, pool %d", prefix, ttl, allow, s.Options.PoolSize)
	}
	s, err = parse(t, "redis://h")
	if err != nil {
		t.Fatal(err)
	}
	if prefix, ttl, allow := s.Config(); prefix != "locker:" || ttl != "30s" || allow || s.Options.PoolSize != 0 {
		t.Errorf("without parameters: prefix %q, TTL %s, allow eviction %v, pool %d", prefix, ttl, allow, s.Options.PoolSize)
	}
	if s, err = parse(t, "redis://h?prefix="); err != nil {
		t.Fatal(err)
	}
	if prefix, _, _ := s.Config(); prefix != "" {
		t.Errorf("the prefix is %q, want none", prefix)
	}
}

// What is refused, without a connection, and without showing what may be secret.
func TestURLRefused(t *testing.T) {
	for raw, says := range map[string]string{
		"redis://h/x":                            "number of a database",
		"redis://h/-1":                           "number of a database",
		"redis://h/1/2":                          "number of a database",
		"redis://h/1?db=2":                       "different databases",
		"redis://h?db=-1":                        "not negative",
		"redis://h?pool_size=-1":                 "from 0 to 100000",
		"redis://h?pool_size=100001":             "from 0 to 100000",
		"redis://h?pool_size=3000000000":         "from 0 to 100000",
		"redis://h?db=sesame":                    `"db"`,
		"redis://h?ttl=0s":                       `"ttl"`,
		"redis://h?ttl=1ms":                      "want 10ms",
		"redis://h?prefix=%7Bx":                  "brace",
		"redis://h?prefix=x%0A":                  "control character",
		"redis://h?db=1&db=2":                    "twice",
		"redis://h?Prefix=x":                     `"Prefix"`,
		"redis://:sesame@h?paswword=sesame":      `"paswword"`,
		"redis://h#sesame":                       "only parameters may follow",
		"redis:h":                                "only parameters may follow",
		"redis://h?addr=h2:1":                    "cluster=true",
		"redis://h?master_name=m&addr=sesame":    "HOST:PORT",
		"redis://h?master_name=m&cluster=true":   "no Sentinels",
		"redis://h/1?cluster=true":               "no database but 0",
		"redis://h?password=sesame":              "before the host",
		"redis://h?username=sesame":              "before the host",
		"redis://h?ca_file=/sesame":              "rediss://",
		"redis://h?skip_verify=true":             "rediss://",
		"valkey://h?skip_verify=true":            "valkeys://",
		"redis://h:0":                            "65535",
		"redis://h?master_name=m&addr=a:99999":   "65535",
		"redis://h?master_name=m&addr=a:redis":   "65535",
		"rediss://h?ca_file=/no/such/file":       "ca_file",
		"rediss://h?cert_file=/no/such/file":     "cert_file and key_file",
		"redis+unix://run/redis.sock":            "three slashes",
		"redis+unix:///":                         "three slashes",
		"redis+unix:///s?cluster=true":           "socket",
		"redis+unix:///s?master_name=m":          "socket",
		"redis+unix:///s?server_name=h":          "rediss://",
		"redis://h?%zz":                          "escaped",
		"redis://h?addr=a:1&addr=b:2&x=sesame;y": "escaped",
	} {
		_, err := locker.Open(t.Context(), raw)
		var e *locker.Error
		if !errors.As(err, &e) || e.Backend != "redis" || !errors.Is(err, locker.ErrOption) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want ErrOption that speaks of %s", raw, err, says)
		}
		if err != nil && strings.Contains(err.Error(), "sesame") && !strings.Contains(raw, "ca_file") {
			t.Errorf("%s: the error shows what may be secret: %v", raw, err)
		}
	}
}

func TestURLWithCertificates(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := parse(t, "rediss://h?ca_file="+file); !errors.Is(err, locker.ErrOption) || !strings.Contains(err.Error(), "has no certificate") {
		t.Errorf("a file without a certificate: %v, want ErrOption", err)
	}
	s, err := parse(t, "rediss://h?server_name=other&skip_verify=true")
	if err != nil {
		t.Fatal(err)
	}
	if c := s.Options.TLSConfig; c.ServerName != "other" || !c.InsecureSkipVerify {
		t.Errorf("the settings of TLS are %+v", c)
	}
}

func TestSchemes(t *testing.T) {
	for _, scheme := range []string{"redis", "rediss", "valkey", "valkeys", "redis+unix"} {
		if !slices.Contains(locker.Schemes(), scheme) {
			t.Errorf("%s:// is not known: %v", scheme, locker.Schemes())
		}
	}
	if slices.Contains(locker.Schemes(), "unix") {
		t.Errorf("unix:// is taken for the whole program: %v", locker.Schemes())
	}
}

func FuzzURL(f *testing.F) {
	f.Add("redis://joe:pass@h:1/2?prefix=a:&ttl=3s")
	f.Add("redis+unix://joe@/s?db=1")
	f.Add("rediss://s1?master_name=m&addr=s2:1&username=u&password=p")
	f.Add("redis://n?cluster=true&addr=h:1")
	f.Fuzz(func(t *testing.T, raw string) {
		u, err := url.Parse(raw)
		if err != nil || u.Query().Has("ca_file") || u.Query().Has("cert_file") || u.Query().Has("key_file") {
			t.Skip()
		}
		s, err := redisbackend.ParseURL(u)
		if err != nil {
			if !errors.Is(err, locker.ErrOption) {
				t.Errorf("%q: %v, want ErrOption", raw, err)
			}
			return
		}
		if len(s.Options.Addrs) == 0 || s.Options.DB < 0 || s.Options.MasterName != "" && s.Options.IsClusterMode {
			t.Errorf("%q was read as %+v", raw, s.Options)
		}
	})
}
