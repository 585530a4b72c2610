package redlockbackend_test

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/redlockbackend"
)

func parse(t *testing.T, raw string) (redlockbackend.Settings, error) {
	t.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	return redlockbackend.ParseURL(u)
}

// describe lists servers in words: address, user, password, database, and whether by TLS or through
// a socket.
func describe(servers []*redis.Options) string {
	var words []string
	for _, o := range servers {
		w := o.Addr
		if o.Username+o.Password != "" {
			w = o.Username + ":" + o.Password + "@" + w
		}
		if o.DB != 0 {
			w += "/" + string(rune('0'+o.DB))
		}
		if o.TLSConfig != nil {
			w = "tls " + w + " " + o.TLSConfig.ServerName
		}
		if o.Network == "unix" {
			w = "unix " + w
		}
		words = append(words, strings.TrimSpace(w))
	}
	return strings.Join(words, ", ")
}

func TestURL(t *testing.T) {
	own := func(urls ...string) string {
		query := url.Values{"server": urls}
		return "redlock://?" + query.Encode()
	}
	for raw, want := range map[string]string{
		"redlock://a,b,c":                                       "a:6379, b:6379, c:6379",
		"redlock://a:1,b:2,c:3/":                                "a:1, b:2, c:3",
		"redlock://a,b,c/3":                                     "a:6379/3, b:6379/3, c:6379/3",
		"redlock://a,b,c?db=3":                                  "a:6379/3, b:6379/3, c:6379/3",
		"redlock://:p%40ss@a,b,c":                               ":p@ss@a:6379, :p@ss@b:6379, :p@ss@c:6379",
		"redlock://joe:pw@a,b,c":                                "joe:pw@a:6379, joe:pw@b:6379, joe:pw@c:6379",
		"redlocks://a,b,c?server_name=x":                        "tls a:6379 x, tls b:6379 x, tls c:6379 x",
		"redlock://a,c?server=redis%3A%2F%2Fb":                  "a:6379, c:6379, b:6379",
		"redlock://a?addr=b:1&addr=[::1]:2":                     "a:6379, b:1, [::1]:2",
		"redlock://?addr=a:1&addr=b:2&addr=c:3":                 "a:1, b:2, c:3",
		"redlocks://joe:pw@a/3?addr=b:1&addr=c:2&server_name=x": "tls joe:pw@a:6379/3 x, tls joe:pw@b:1/3 x, tls joe:pw@c:2/3 x",
		own("redis://d:3", "redis://a", "redis://u:p@b:2/1", "rediss://:q@c?server_name=y", "redis+unix://u:s@/run/r.sock?db=2"): "d:3, a:6379, u:p@b:2/1, tls :q@c:6379 y, unix u:s@/run/r.sock/2",
		own("redis://a", "valkey://b:1", "valkeys://c?server_name=y"):                                                            "a:6379, b:1, tls c:6379 y",
	} {
		s, err := parse(t, raw)
		if err != nil {
			t.Errorf("%s: %v, want nil", raw, err)
			continue
		}
		if got := describe(s.Servers()); got != want {
			t.Errorf("%s was read as %s, want %s", raw, got, want)
		}
		for _, o := range s.Servers() {
			if o.MaxRetries != -1 || o.DialerRetries != 1 || !o.ContextTimeoutEnabled {
				t.Errorf("%s: go-redis repeats requests, or minds no contexts: %+v", raw, o)
			}
		}
	}
}

func TestURLParameters(t *testing.T) {
	s, err := parse(t, "redlock://a,b,c?prefix=billing:&ttl=1m30s&max_ttl=2m&server_timeout=50ms&new_cluster=true&allow_eviction=1&pool_size=3")
	if err != nil {
		t.Fatal(err)
	}
	prefix, ttl, maxTTL, serverTimeout, newCluster, allow := s.Config()
	if prefix != "billing:" || ttl != 90*time.Second || maxTTL != 2*time.Minute || serverTimeout != 50*time.Millisecond || !newCluster || !allow {
		t.Errorf("read as %q, %v, %v, %v, %v, %v", prefix, ttl, maxTTL, serverTimeout, newCluster, allow)
	}
	for _, o := range s.Servers() {
		if o.PoolSize != 3 {
			t.Errorf("pool size %d, want 3", o.PoolSize)
		}
	}
	if s, err = parse(t, "redlock://a,b,c"); err != nil {
		t.Fatal(err)
	}
	prefix, ttl, maxTTL, serverTimeout, newCluster, allow = s.Config()
	if prefix != "redlock:" || ttl != 30*time.Second || maxTTL != time.Minute || serverTimeout != time.Second || newCluster || allow {
		t.Errorf("without parameters: %q, %v, %v, %v, %v, %v", prefix, ttl, maxTTL, serverTimeout, newCluster, allow)
	}
}

// Leases that don't ask for a TTL get one that is not longer than the longest.
func TestLongestTTLAlone(t *testing.T) {
	for longest, want := range map[time.Duration]time.Duration{10 * time.Second: 10 * time.Second, 45 * time.Second: 30 * time.Second} {
		s, err := parse(t, "redlock://a,b,c?max_ttl="+longest.String())
		for how, s := range map[string]redlockbackend.Settings{
			"by URL": s, "by option": redlockbackend.SettingsOf(redlockbackend.WithMaxTTL(longest)),
		} {
			_, ttl, maxTTL, _, _, _ := s.Config()
			if err := errors.Join(err, s.Check()); err != nil || ttl != want || maxTTL != longest {
				t.Errorf("longest TTL %v %s: TTL %v, longest %v, %v, want a TTL of %v", longest, how, ttl, maxTTL, err, want)
			}
		}
	}
	for _, given := range []time.Duration{0, 11 * time.Second, 30 * time.Second} { // what was asked for is never changed
		for _, opts := range [][]redlockbackend.Option{
			{redlockbackend.WithDefaultTTL(given), redlockbackend.WithMaxTTL(10 * time.Second)},
			{redlockbackend.WithMaxTTL(10 * time.Second), redlockbackend.WithDefaultTTL(given)},
		} {
			if err := redlockbackend.SettingsOf(opts...).Check(); !errors.Is(err, locker.ErrOption) {
				t.Errorf("TTL %v and a longest of 10s: %v, want ErrOption", given, err)
			}
		}
		if _, err := parse(t, "redlock://a,b,c?max_ttl=10s&ttl="+given.String()); !errors.Is(err, locker.ErrOption) {
			t.Errorf("URL with TTL %v and a longest of 10s: %v, want ErrOption", given, err)
		}
	}
}

// No URL makes it panic, and an error shows no password.
func FuzzURL(f *testing.F) {
	for _, seed := range []string{
		"redlock://a,b,c", "redlock://:sesame@a:1,b:2,c:3/1?ttl=1s", "redlocks://[::1]:1,b:2,c:3?skip_verify=1",
		"redlock://?server=redis%3A%2F%2F%3Asesame%40a&server=redis%2Bunix%3A%2F%2F%2Fx&server=rediss%3A%2F%2Fb%3A1",
		"redlock://a,b?server=%3A%3Asesame", "redlock://a?addr=b:1&addr=c:1", "redlock:x", "redlock://a,b,c?max_ttl=9999999h",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		u, err := url.Parse(raw)
		if err != nil || strings.Contains(raw, "_file") { // reads no files
			t.Skip()
		}
		s, err := redlockbackend.ParseURL(u)
		switch {
		case err == nil:
			for _, o := range s.Servers() {
				if o.Addr == "" || o.DB < 0 || o.MaxRetries != -1 {
					t.Errorf("%q was read as %+v", raw, o)
				}
			}
			_ = s.Check()
		case !errors.Is(err, locker.ErrOption):
			t.Errorf("%q: %v, want ErrOption", raw, err)
		}
		if password, _ := u.User.Password(); err != nil && len(password) > 8 && strings.Contains(err.Error(), password) {
			t.Errorf("%q: the error shows the password: %v", raw, err)
		}
	})
}

func TestInfo(t *testing.T) {
	const good = "run_id:0f\r\nrole:master\r\nmaster_replid:1e\r\nredis_version:7.0.1\r\nredis_mode:standalone\r\nmaxmemory_policy:noeviction\r\n"
	for change, says := range map[string]string{
		"":                              "",
		"redis_version:8.0.2":           "",
		"redis_version:6.2.0":           "",
		"redis_version:unstable":        "",
		"redis_version:6.0.9":           "want 6.2",
		"redis_mode:cluster":            "independent",
		"redis_mode:sentinel":           "Sentinel",
		"server_mode:cluster":           "independent", // as Valkey calls it
		"server_mode:sentinel":          "Sentinel",
		"run_id:":                       "run_id",
		"role:":                         "role",
		"master_replid:":                "master_replid",
		"role:slave":                    "replica",
		"maxmemory_policy:allkeys-lru":  "allkeys-lru",
		"maxmemory_policy:volatile-ttl": "noeviction",
	} {
		err := redlockbackend.CheckInfo(good+change+"\r\n", false)
		if (err == nil) != (says == "") || err != nil && !strings.Contains(err.Error(), says) {
			t.Errorf("with %q: %v, want %q", change, err, says)
		}
	}
	if err := redlockbackend.CheckInfo(good+"maxmemory_policy:allkeys-lru", true); err != nil {
		t.Errorf("eviction was accepted: %v, want nil", err)
	}
}

// A client that was forgotten is an error, and no panic.
func TestNilClients(t *testing.T) {
	var clients []*redis.Client
	for i := range 3 {
		client := redis.NewClient(&redis.Options{Addr: fmt.Sprintf("127.0.0.1:%d", i+1)})
		defer client.Close()
		clients = append(clients, client)
	}
	clients[1] = nil
	for _, servers := range [][]*redis.Client{nil, {nil}, {nil, nil, nil}, clients} {
		if l, err := redlockbackend.New(t.Context(), servers); l != nil || !errors.Is(err, locker.ErrOption) {
			t.Errorf("New with the clients %v = %v, %v, want ErrOption", servers, l, err)
		}
	}
	if _, err := redlockbackend.New(t.Context(), clients); !strings.Contains(err.Error(), "client 2") {
		t.Errorf("New without the second client = %v, want it to say which is missing", err)
	}
}
