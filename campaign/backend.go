package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/etcdbackend"
	"github.com/fencedlock/locker/pgbackend"
	"github.com/fencedlock/locker/redisbackend"
	"github.com/fencedlock/locker/redlockbackend"
	"github.com/fencedlock/locker/zkbackend"
)

// backends is the table of services.
//
// To add a backend, add a row here and a file named for it, which has two things: a function that
// starts the servers, and the libraries.
var backends = []backend{
	{name: "redis", ttl: 3 * time.Second, start: startRedis, libraries: slices.Concat(redisLibraries, redisPlanted), promises: redisbackend.Guarantees()},
	{name: "postgres", ttl: 3 * time.Second, start: startPostgres, libraries: postgresLibraries, promises: pgbackend.Guarantees(), nameless: true},
	{name: "etcd", ttl: 3 * time.Second,
		start: startEtcd, libraries: slices.Concat(etcdLibraries, etcdPlanted), promises: etcdbackend.Guarantees(), static: true, elects: true, peerPorts: true},
	{name: "zookeeper", ttl: 4 * time.Second, // the shortest session of the servers' default
		start: startZooKeeper, libraries: zooKeeperLibraries, promises: zkbackend.Guarantees(), elects: true, peerPorts: true},
	{name: "redlock", ttl: 3 * time.Second, start: startRedlock, libraries: redlockLibraries, promises: redlockbackend.Guarantees(), independent: true},
	{name: "postgres-replica", ttl: 3 * time.Second,
		start: startPostgresReplica, libraries: postgresLibraries, promises: replicaPromises(), nameless: true, elects: true, promoted: true, variant: true},
	{name: "redis-sentinel", ttl: 3 * time.Second,
		start: startSentinel, libraries: sentinelLibraries, promises: sentinelPromises(), elects: true, variant: true},
	{name: "redis-cluster", ttl: 3 * time.Second,
		start: startCluster, libraries: clusterLibraries, promises: clusterPromises(), shards: true, variant: true},
}

// backend is a kind of service that keeps locks.
type backend struct {
	name      string
	ttl       time.Duration // of all leases and sessions
	start     func(ctx context.Context) (*service, error)
	libraries []library

	promises    locker.Guarantees // of this project's backend
	nameless    bool              // requests don't contain the name of the lock
	independent bool              // requests go to all servers
	static      bool              // the servers aren't linked with the system's library
	elects      bool              // the servers elect a leader
	promoted    bool              // an operator makes a server the leader, and only if the former one is gone
	peerPorts   bool              // the servers have ports for each other, which no client uses
	shards      bool              // each key has its server, which may change
	variant     bool              // another form of a service: only for the faults that its usual form can't have
}

// has reports whether a fault exists for the backend.
func (b backend) has(f fault) bool {
	switch {
	case f.leader && !b.elects, f.leader && !f.killsLeader && b.promoted, f.isolates && !b.peerPorts, f.preloads && b.static, f.sharded && !b.shards:
		return false
	case b.variant:
		return f.leader || f.sharded || f.name == controlFault
	}
	return true
}

func (b backend) library(name string) (library, error) {
	for _, l := range b.libraries {
		if l.name == name {
			return l, nil
		}
	}
	return library{}, fmt.Errorf("library %q of %s is unknown", name, b.name)
}

func findBackend(name string) (backend, error) {
	var names []string
	for _, b := range backends {
		if b.name == name {
			return b, nil
		}
		names = append(names, b.name)
	}
	return backend{}, fmt.Errorf("backend %q is unknown: want one of %s", name, strings.Join(names, ", "))
}

// service is a running backend.
type service struct {
	*servers
	version string        // such as "Redis 8.0.2"
	addrs   []string      // where clients connect, HOST:PORT
	ttl     time.Duration // of all leases and sessions

	// prepare returns nil when the servers serve requests and have all that clients need. Servers
	// without data get it from prepare.
	prepare func(ctx context.Context) error

	// leader returns the number of the server that leads, or nobody. That isn't former, which may
	// not know that it was deposed. It is nil if no server leads.
	leader    func(ctx context.Context, former int) (int, error)
	promote   func(ctx context.Context, former int) error // makes another server than former, which is gone, the leader; nil: the servers elect one
	peerPorts [][]int                                     // the ports for other servers, of each server with such ports

	background sync.WaitGroup // what a fault does meanwhile
}

// ready returns when the servers serve requests.
func (s *service) ready(ctx context.Context) error { return retry(ctx, s.prepare) }
