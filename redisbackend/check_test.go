package redisbackend_test

import (
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/internal/redisconn/redistest"
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

// behindSentinels is a client with Sentinels, and the role of the server for each connection to it, in
// order.
func behindSentinels(t *testing.T, roles ...string) *redis.Client {
	t.Helper()
	var connections atomic.Int32
	server := redistest.Listen(t, func(conn net.Conn) {
		role := roles[min(int(connections.Add(1)), len(roles))-1]
		redistest.Serve(conn, func(command []string) string {
			if strings.EqualFold(command[0], "info") {
				return redistest.Bulk("redis_version:8.0.0\r\nredis_mode:standalone\r\nmaxmemory_policy:noeviction\r\nrole:" + role + "\r\n")
			}
			return redistest.Handshake(command)
		})
	})
	host, port, err := net.SplitHostPort(server)
	if err != nil {
		t.Fatal(err)
	}
	sentinel := redistest.Listen(t, func(conn net.Conn) {
		redistest.Serve(conn, func(command []string) string {
			switch strings.ToLower(strings.Join(command[:min(2, len(command))], " ")) {
			case "sentinel get-master-addr-by-name":
				return "*2\r\n" + redistest.Bulk(host) + redistest.Bulk(port)
			case "sentinel sentinels":
				return "*0\r\n"
			case "subscribe +switch-master":
				return redistest.Confirm(command[1]) + redistest.Confirm(command[2])
			}
			return redistest.Handshake(command)
		})
	})
	client := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "m", SentinelAddrs: []string{sentinel}})
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// A client that reaches replicas through Sentinels is refused: each replica that can be written to would
// grant the same lock. A master that has just become a replica is asked for again.
func TestCheckBehindSentinels(t *testing.T) {
	for _, c := range []struct {
		roles []string // for each connection
		want  error
	}{
		{[]string{"master"}, nil},
		{[]string{"slave"}, locker.ErrOption},
		{[]string{"slave", "master"}, nil},
		{[]string{""}, nil}, // INFO replication is not permitted
	} {
		err := redisbackend.Check(t.Context(), behindSentinels(t, c.roles...))
		if !errors.Is(err, c.want) || err != nil && !strings.Contains(err.Error(), "ReplicaOnly") {
			t.Errorf("the server is %q, and the check = %v, want %v", c.roles, err, c.want)
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
