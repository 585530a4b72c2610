package redisconn_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/internal/redisconn"
)

func TestFacts(t *testing.T) {
	for _, c := range []struct {
		what, info string
		want       redisconn.Facts
	}{
		{"Redis", "# Server\r\nredis_version:8.0.2\r\nredis_mode:cluster\r\nrun_id:0f\r\n# Memory\r\nmaxmemory_policy:noeviction\r\n" +
			"# Replication\r\nrole:slave\r\nmaster_replid:1e\r\nmaster_replid2:2d\r\n",
			redisconn.Facts{Run: "0f", Version: "8.0.2", Mode: "cluster", Policy: "noeviction", Role: "slave", History: "1e"}},
		{"Valkey from 8.0 on", "# Server\r\nredis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.1.1\r\nserver_mode:sentinel\r\nrun_id:0f\r\n",
			redisconn.Facts{Run: "0f", Version: "7.2.4", Mode: "sentinel"}},
		{"nothing", "", redisconn.Facts{}},
	} {
		var f redisconn.Facts
		if f.Read(c.info); f != c.want {
			t.Errorf("%s: read as %+v, want %+v", c.what, f, c.want)
		}
	}
}

func TestCheckVersion(t *testing.T) {
	for version, fits := range map[string]bool{"8.0.2": true, "6.2.0": true, "6.2": true, "": true, "unstable": true, "255.255.255": true,
		"6.0.16": false, "5.0.14": false} {
		err := redisconn.Facts{Version: version}.CheckVersion()
		if (err == nil) != fits || err != nil && !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("CheckVersion of %q = %v, want that it fits: %v, or else ErrUnsupported", version, err, fits)
		}
	}
}

func TestCheckRole(t *testing.T) {
	for role, fits := range map[string]bool{"master": true, "": true, "slave": false, "replica": false} {
		err := redisconn.Facts{Role: role}.CheckRole()
		if (err == nil) != fits || err != nil && (!errors.Is(err, locker.ErrOption) || !strings.Contains(err.Error(), "replica")) {
			t.Errorf("CheckRole of %q = %v, want that it fits: %v, or else ErrOption", role, err, fits)
		}
	}
}

func TestCheckEviction(t *testing.T) {
	for policy, says := range map[string]string{"noeviction": "", "": "+info", "allkeys-lru": "allkeys-lru", "volatile-ttl": "noeviction"} {
		err := redisconn.Facts{Policy: policy}.CheckEviction()
		if (err == nil) != (says == "") || err != nil && (!errors.Is(err, locker.ErrOption) || !strings.Contains(err.Error(), says)) {
			t.Errorf("CheckEviction of %q = %v, want %q", policy, err, says)
		}
	}
}

// A call that was left writes nothing that its caller reads: the race detector would see it.
func TestFactsOfACallThatWasLeft(t *testing.T) {
	late := make(chan struct{})
	c := connect(t, false, func([]string) string {
		<-late
		return "-ERR too late\r\n"
	})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := c.AskFacts(ctx, c.Client); !errors.Is(err, locker.ErrNoAnswer) {
		t.Errorf("AskFacts of a server that is late = %v, want ErrNoAnswer", err)
	}
	close(late)
	for end := time.Now().Add(10 * time.Second); c.Client.PoolStats().IdleConns == 0 && time.Now().Before(end); { // the call hasn't ended
		time.Sleep(time.Millisecond)
	}
}
