package zkbackend_test

import (
	"errors"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/zkbackend"
)

func parse(t *testing.T, raw string) (zkbackend.Settings, error) {
	t.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	return zkbackend.ParseURL(u)
}

func TestURL(t *testing.T) {
	for _, c := range []struct {
		url, servers, root, auth string
		ttl, tick                time.Duration
	}{
		{url: "zk://", servers: "localhost"},
		{url: "zk://h", servers: "h"},
		{url: "zookeeper://h1:1,h2:2/a", servers: "h1:1 h2:2", root: "/a"},
		{url: "zks://h1,h2:2/a?server_name=zk.example", servers: "h1 h2:2", root: "/a"},
		{url: "zk://h/", servers: "h"},
		{url: "zookeepers://h1,h2?addr=h3:1", servers: "h1 h2 h3:1"},
		{url: "zk://h1,h2,h3/a/b", servers: "h1 h2 h3", root: "/a/b"},
		{url: "zk://h1:1,h2:2,h3:3/a/", servers: "h1:1 h2:2 h3:3", root: "/a"},
		{url: "zk://h1:1/a?addr=h2:2&addr=[::1]:3", servers: "h1:1 h2:2 [::1]:3", root: "/a"},
		{url: "zk://?addr=h2:2", servers: "h2:2"},
		{url: "zk://joe:p%40ss@h?ttl=4s&tick=500ms", servers: "h", auth: "digest joe:p@ss", ttl: 4 * time.Second, tick: 500 * time.Millisecond},
	} {
		s, err := parse(t, c.url)
		if err != nil {
			t.Errorf("%s: %v, want nil", c.url, err)
			continue
		}
		auth := ""
		for _, a := range s.Auth {
			auth += a[0] + " " + a[1]
		}
		if c.root == "" {
			c.root = "/locker"
		}
		if got := strings.Join(s.Servers, " "); got != c.servers || s.Root != c.root || auth != c.auth || s.TTL != c.ttl || s.Tick != c.tick {
			t.Errorf("%s: %+v, want %+v", c.url, s, c)
		}
	}
}

func TestURLThatMakesNoSense(t *testing.T) {
	for _, c := range []struct{ url, says string }{
		{"zk:h", "zk://"},
		{"zk://h#a", "zk://"},
		{"zk://joe@h", "password"},
		{"zk://:secret@h", "name"},
		{"zk://h?ttl=x", "ttl"},
		{"zk://h?ttl=-1s", "ttl"},
		{"zk://h?tick=0s", "tick"},
		{"zk://h?acl=nobody", "acl"},
		{"zk://h?prefix=x", "prefix"},
		{"zk://h?ca_file=ca.pem", "zks://"},
		{"zookeeper://h?skip_verify=true", "zookeepers://"},
		{"zks://h?ca_file=/no/such/file", "ca_file"},
		{"zk://h?ttl=1s&ttl=2s", "ttl"},
	} {
		_, err := parse(t, c.url)
		if !errors.Is(err, locker.ErrOption) || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, want ErrOption that speaks of %q", c.url, err, c.says)
		}
	}
	for _, raw := range []string{"zk://h1,,h2", "zookeeper://h/zookeeper", "zks://h/zookeeper", "zk://h/zookeeper", "zk://h/a//b", "zk://h?addr=a/b"} {
		if l, err := locker.Open(t.Context(), raw); !errors.Is(err, locker.ErrOption) {
			t.Errorf("Open(%q) = %v, %v, want ErrOption", raw, l, err)
		}
	}
}

func TestACL(t *testing.T) {
	for _, c := range []struct {
		text string
		want []zk.ACL
	}{
		{"world:anyone:r", []zk.ACL{{Perms: zk.PermRead, Scheme: "world", ID: "anyone"}}},
		{"auth::cdrwa,ip:::1:cd", []zk.ACL{{Perms: zk.PermAll, Scheme: "auth"}, {Perms: zk.PermCreate | zk.PermDelete, Scheme: "ip", ID: "::1"}}},
		{"digest:joe:aGFzaA==:cdrw", []zk.ACL{{Perms: zk.PermAll &^ zk.PermAdmin, Scheme: "digest", ID: "joe:aGFzaA=="}}},
	} {
		if got, err := zkbackend.ParseACL(c.text); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("ParseACL(%q) = %v, %v, want %v", c.text, got, err, c.want)
		}
	}
	for _, bad := range []string{"", ",", "world", "world:anyone", "world:anyone:", ":anyone:r", "world:anyone:x", "world:anyone:r,"} {
		if got, err := zkbackend.ParseACL(bad); err == nil {
			t.Errorf("ParseACL(%q) = %v, want an error", bad, got)
		}
	}
	s, err := parse(t, "zk://joe:secret@h?acl=world:anyone:cdrwa")
	if err != nil || !slices.Equal(s.ACL, zk.WorldACL(zk.PermAll)) {
		t.Errorf("with a user and an acl: %v, %v, want the acl that was given", s.ACL, err)
	}
	if s, err = parse(t, "zk://joe:secret@h"); err != nil || !slices.Equal(s.ACL, zk.AuthACL(zk.PermAll)) {
		t.Errorf("with a user: %v, %v, want that user's alone", s.ACL, err)
	}
}

func TestTick(t *testing.T) {
	const s = time.Second
	for _, c := range []struct{ shortest, longest, want time.Duration }{
		{4 * s, 40 * s, 2 * s},  // 2 and 20 ticks
		{s, 10 * s, s / 2},      // the same
		{4 * s, 120 * s, 6 * s}, // a longer session was allowed: too large
		{10 * s, 40 * s, 5 * s}, // a longer one was demanded: too large
		{s, 40 * s, 2 * s},      // a shorter one was allowed
		{4 * s, 10 * s, 2 * s},  // only shorter ones were allowed
		{0, 0, 0},
	} {
		if got := zkbackend.TickOf(c.shortest, c.longest); got != c.want {
			t.Errorf("sessions from %v to %v: a tick of %v, want %v", c.shortest, c.longest, got, c.want)
		}
	}
}
