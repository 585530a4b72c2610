package redlockbackend_test

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/redlockbackend"
)

// What is refused, without a connection, and without showing what may be secret.
func TestURLRefused(t *testing.T) {
	server := func(u string) string { return "redlock://a,b?server=" + url.QueryEscape(u) }
	for raw, says := range map[string]string{
		"redlock://":                                   "0 servers",
		"redlock://a":                                  "1 servers",
		"redlock://a,b":                                "2 servers",
		"redlock://a,b,c,d":                            "no more may fail than with 3",
		"redlock://a,b,c,d,e,f":                        "no more may fail than with 5",
		"redlock://a,b,a":                              "twice",
		"redlock://a,b,a:6379":                         "twice",
		"redlock://a,,b":                               "HOST",
		"redlock://a,b,":                               "HOST",
		"redlock://a:1,b:2,c:99999":                    "65535",
		"redlock://a,b,c/x":                            "number of a database",
		"redlock://a,b,c/1?db=2":                       "different databases",
		"redlock://a,b,c?db=-1":                        "not negative",
		"redlock://a,b,c?pool_size=-1":                 "from 0 to 100000",
		"redlock://a,b,c?pool_size=100001":             "from 0 to 100000",
		"redlock://a,b,c?pool_size=3000000000":         "from 0 to 100000",
		"redlock://a,b,c?ttl=1ms":                      "want 20ms",
		"redlock://a,b,c?ttl=61s":                      "max_ttl",
		"redlock://a,b,c?max_ttl=25h":                  "24h",
		"redlock://a,b,c?max_ttl=1ms&ttl=1ms":          "20ms",
		"redlock://a,b,c?server_timeout=1us":           "1ms",
		"redlock://a,b,c?prefix=%7Bx":                  "brace",
		"redlock://a,b,c?Prefix=x":                     `"Prefix"`,
		"redlock://a,b,c?ttl=1s&ttl=2s":                "twice",
		"redlock://:sesame@a,b,c?paswword=sesame":      `"paswword"`,
		"redlock://a,b,c#sesame":                       "only parameters may follow",
		"redlock:a,b,c":                                "only parameters may follow",
		"redlock://a,b,c?skip_verify=true":             "redlocks://",
		"redlocks://a,b,c?ca_file=/nowhere":            "ca_file",
		"redlock://joe:sesame@?server=redis%3A%2F%2Fa": "URL of each server",
		"redlock://:sesame@a?addr=b:1&addr=c":          "HOST:PORT",
		"redlock://a?addr=b:1&addr=c:1&addr=d:1":       "want 3, 5 or 7",
		"redlock://a?addr=b:1&addr=b:1":                "twice",
		server("redis://:sesame@c:x"):                  "server 1",
		server("redis://:sesame@c,d"):                  "server 1: invalid host",
		server("redis://:sesame@c?addr=d:1"):           `"addr"`,
		server("http://:sesame@c"):                     "invalid scheme: want one of redis",
		server("redis://:sesame@c?master_name=m"):      "server 1: " + errors.ErrUnsupported.Error(),
		"redlock://:sesame@a,b,c?master_name=m":        "Sentinels",
		server("redis://:sesame@c?cluster=true"):       `"cluster"`,
		server("redis://:sesame@c/x"):                  "number of a database",
		server("redis://:sesame@"):                     "HOST",
		server("redis+unix://:sesame@c/x"):             "three slashes",
		server("redis+unix://:sesame@/"):               "three slashes",
		server("redis://:sesame@c#x"):                  "escaped",
		server("redis://:sesame@c?ca_file=/nowhere"):   "rediss://",
	} {
		ctx, cancel := context.WithCancel(t.Context())
		cancel() // no I/O could succeed
		l, err := locker.Open(ctx, raw)
		if err == nil {
			_ = l.Close()
			t.Errorf("%s: no error", raw)
			continue
		}
		if !errors.Is(err, locker.ErrOption) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want ErrOption and %q", raw, err, says)
		}
		if strings.Contains(err.Error(), "sesame") {
			t.Errorf("%s: the error shows what may be secret: %v", raw, err)
		}
	}
}

// A fail-over group is no server that could have a vote: what its former master grants, the
// promoted one doesn't know.
func TestSentinelsRefused(t *testing.T) {
	group := func() *redis.Client {
		return redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "m", SentinelAddrs: []string{"127.0.0.1:1"}})
	}
	server := func(addr string) *redis.Client { return redis.NewClient(&redis.Options{Addr: addr}) }
	for what, clients := range map[string][]*redis.Client{
		"three groups":           {group(), group(), group()},
		"two servers, one group": {server("127.0.0.1:1"), group(), server("127.0.0.1:2")},
		"one group":              {group()},
	} {
		l, err := redlockbackend.New(t.Context(), clients)
		if err == nil {
			_ = l.Close()
		}
		if !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "Sentinels") {
			t.Errorf("New with %s = %v, want ErrUnsupported, and why", what, err)
		}
		for _, c := range clients {
			_ = c.Close()
		}
	}
	for _, raw := range []string{
		"redlock://a,b,c?master_name=m",
		"redlock://a,b?server=" + url.QueryEscape("redis://s1:26379?master_name=m&addr=s2:26379"),
	} {
		if _, err := parse(t, raw); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%s: %v, want ErrUnsupported", raw, err)
		}
	}
}
