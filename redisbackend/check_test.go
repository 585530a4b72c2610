package redisbackend_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/redisbackend"
)

func TestCheckInfo(t *testing.T) {
	info := func(version, mode, policy string) string {
		return "# Server\r\nredis_version:" + version + "\r\nredis_mode:" + mode + "\r\nos:Linux\r\n# Memory\r\nmaxmemory:0\r\nmaxmemory_policy:" + policy + "\r\n"
	}
	valkey := func(mode string) string {
		return strings.Replace(info("7.2.4", mode, "noeviction"), "redis_mode", "server_mode", 1)
	}
	for _, c := range []struct {
		what           string
		info           string
		cluster, allow bool
		want           error
		says           string
	}{
		{"a server", info("7.0.15", "standalone", "noeviction"), false, false, nil, ""},
		{"the oldest", info("6.2.0", "standalone", "noeviction"), false, false, nil, ""},
		{"a version of two parts", info("6.2", "standalone", "noeviction"), false, false, nil, ""},
		{"two digits", info("10.0.1", "standalone", "noeviction"), false, false, nil, ""},
		{"an older one", info("6.0.16", "standalone", "noeviction"), false, true, errors.ErrUnsupported, "6.0.16"},
		{"a much older one", info("5.0.14", "standalone", "noeviction"), false, true, errors.ErrUnsupported, "6.2"},
		{"a version of somebody else", info("255.255.255-x", "standalone", "noeviction"), false, false, nil, ""},
		{"no version", info("", "standalone", "noeviction"), false, false, nil, ""},
		{"a Sentinel", info("7.0.15", "sentinel", "noeviction"), false, true, locker.ErrOption, "master_name"},
		{"a Cluster", info("7.0.15", "cluster", "noeviction"), true, false, nil, ""},
		{"one of a Cluster", info("7.0.15", "cluster", "noeviction"), false, true, locker.ErrOption, "cluster=true"},
		{"a Valkey", valkey("standalone"), false, false, nil, ""},
		{"a Sentinel of Valkey", valkey("sentinel"), false, true, locker.ErrOption, "master_name"},
		{"one of a Cluster of Valkey", valkey("cluster"), false, true, locker.ErrOption, "cluster=true"},
		{"a Cluster of Valkey", valkey("cluster"), true, false, nil, ""},
		{"a Cluster's client, one server", info("7.0.15", "standalone", "noeviction"), true, false, nil, ""},
		{"allkeys-lru", info("7.0.15", "standalone", "allkeys-lru"), false, false, locker.ErrOption, "allkeys-lru"},
		{"volatile-ttl", info("7.0.15", "standalone", "volatile-ttl"), false, false, locker.ErrOption, "allow_eviction"},
		{"volatile-ttl, allowed", info("7.0.15", "standalone", "volatile-ttl"), false, true, nil, ""},
		{"INFO forbidden", "", false, false, locker.ErrOption, "+info"},
		{"INFO forbidden, allowed", "", false, true, nil, ""},
	} {
		err := redisbackend.CheckInfo(c.info, c.cluster, c.allow)
		if !errors.Is(err, c.want) || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %v that speaks of %q", c.what, err, c.want, c.says)
		}
	}
}

func TestGuarantees(t *testing.T) {
	g := redisbackend.Guarantees()
	if err := locker.Require(g, locker.Efficiency, locker.OrderFIFO, locker.WaitingHandOff, locker.RequireTTL); err != nil {
		t.Errorf("Require = %v, want nil", err)
	}
	if err := locker.Require(g, locker.Correctness); !errors.Is(err, locker.ErrGuarantee) {
		t.Errorf("Require(Correctness) = %v, want ErrGuarantee: one server that may lose its data is not enough", err)
	}
}
