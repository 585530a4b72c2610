package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// backends is the table of services.
//
// To add a backend, add a row here and a file named for it, which has two things: a function that
// starts the servers, and the libraries.
var backends = []backend{
	{"redis", 3 * time.Second, startRedis, slices.Concat(redisLibraries, redisPlanted)},
	{"postgres", 3 * time.Second, startPostgres, postgresLibraries},
	{"etcd", 3 * time.Second, startEtcd, slices.Concat(etcdLibraries, etcdPlanted)},
	{"zookeeper", 4 * time.Second, startZooKeeper, zooKeeperLibraries}, // the shortest session of the servers' default
	{"redlock", 3 * time.Second, startRedlock, redlockLibraries},
}

// backend is a kind of service that keeps locks.
type backend struct {
	name      string
	ttl       time.Duration // of all leases and sessions
	start     func(ctx context.Context) (*service, error)
	libraries []library
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
	version string   // such as "Redis 8.0.2"
	addrs   []string // where clients connect, HOST:PORT
}
