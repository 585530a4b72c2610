package main

import (
	"context"
	"slices"
	"time"

	"github.com/fencedlock/locker"
)

// backends is the table of what can be measured.
//
// To add a backend, add a row here, and a file named for it with three functions: one like
// startRedis, which starts the servers (startServer) and returns a service; one like redisPeers,
// which returns the peers for servers at any addresses; and one for the goals. The peers have a
// second file (redis_peers.go). All scenarios then run on the backend. They need:
//
//   - bare, the smallest request that does what every lock needs: PING where memory is enough, one
//     durable write where the service writes each lock to disks. Ratios are multiples of it.
//   - byHand, the commands of a lock written without a library, over a pool of 64 connections if
//     the client has a pool.
//   - peers for each scenario: this project under the name thisProject, then the other libraries.
//     Leave out a library that lacks what the scenario needs (waiting, renewal). A library that
//     fails, or hangs, is left out of the row; this project must not fail.
//   - goals: what this project should reach, by scenario and metric. A goal without a figure is a
//     mistake, and ends the run with an error.
//   - requestCounts: the service's own counters. They must tell the requests of clients from what
//     the service does by itself.
var backends = []backend{
	{"redis", startRedis, redisPeers, redisGoals},
	{"redlock", startRedlock, redlockPeers, redlockGoals},
	{"etcd", startEtcd, etcdPeers, etcdGoals},
	{"zookeeper", startZooKeeper, zooKeeperPeers, zooKeeperGoals},
	{"postgres", startPostgres, postgresPeers, postgresGoals},
}

// backend is a kind of service that keeps locks.
type backend struct {
	name  string
	start func(ctx context.Context) (*service, error)
	peers func(addrs []string) peers // for servers at these addresses, HOST:PORT
	goals func() []goal
}

// service is a running backend.
type service struct {
	description string   // for the head of the table, such as "Redis 8.0.2"
	addrs       []string // where clients connect, HOST:PORT

	// requestCounts returns how often the service has executed each command so far, by name. It is
	// nil if the service doesn't count all of them; then the clients do.
	requestCounts func(ctx context.Context) (map[string]int64, error)
	servers       []*container
	stop          func() error

	// warmTime is how long the servers work for each peer before they are measured. A Java virtual machine compiles
	// what it executes often, and that takes its CPU for a while.
	warmTime time.Duration
}

// peers are what is measured on a service.
type peers struct {
	// What the other peers are compared with. bare is a request that does no work, and its release
	// sends nothing; byHand is the commands of a lock without a library.
	bare, byHand peer

	load       []peer // acquire + release, in addition to bare and byHand
	alone      []peer // the same, by one goroutine only: they show what the parts of a lock cost
	handOff    []peer // hand-off
	heldLeases []peer // 10,000 held leases
	waiters    []peer // 10,000 waiters
}

// peer is one thing that is measured: a way to lock, or the bare request.
type peer struct {
	name string

	// commands are the names, in requestCounts, of the requests that its clients send. Commands
	// that the service executes as a part of those are not among them.
	commands []string

	// renewInterval is the time between two renewals of a held lease; 0: it is never renewed.
	renewInterval time.Duration

	// open opens a separate client, like the client of another process.
	open func(ctx context.Context) (*client, error)
}

// client is what one process has of a peer.
type client struct {
	// lock waits for the lock of that name until ctx ends.
	lock  func(ctx context.Context, name string) (release, error)
	close func() // what remains in the service is removed with the service

	// messages returns how many messages the client has sent so far; a message may contain several
	// requests. It is nil if the client can't count them.
	messages func() int64

	// requests returns how many requests the client has sent so far. It is nil where the service
	// counts them.
	requests func() int64

	// ownNames is in the names of the locks that load uses. A client that was given up may have left
	// its locks held.
	ownNames string

	// settle is how long after an acquisition the client may still send a request that belongs to it,
	// and that isn't repeated. It is 0 where an acquisition has sent all when it returns.
	settle time.Duration

	// remote does what load does, in another process; nil: there is none.
	remote func(ctx context.Context, n int, d, limit time.Duration) (Sample, error)
}

// lockerClient returns a client that uses l. Its close closes l first, and then calls closeRest.
func lockerClient(l locker.Locker, closeRest func(), messages func() int64) *client {
	return &client{
		lock: func(ctx context.Context, name string) (release, error) {
			lease, err := l.Acquire(ctx, name)
			if err != nil {
				return nil, err
			}
			return lease.Release, nil
		},
		close: func() {
			_ = l.Close()
			closeRest()
		},
		messages: messages,
	}
}

// release releases a lock.
type release func(ctx context.Context) error

// openAll opens n clients of p.
func (p peer) openAll(ctx context.Context, n int) (clients []*client, err error) {
	for range n {
		cl, err := p.open(ctx)
		if err != nil {
			closeAll(clients)
			return nil, err
		}
		clients = append(clients, cl)
	}
	return clients, nil
}

func closeAll(clients []*client) {
	for _, c := range clients {
		c.close()
	}
}

// requestsOf returns how many requests of p the service has received so far; 0 if it doesn't count
// them.
func (s *service) requestsOf(ctx context.Context, p peer) (n int64, err error) {
	if s.requestCounts == nil {
		return 0, nil
	}
	calls, err := s.requestCounts(ctx)
	for name, count := range calls {
		if slices.Contains(p.commands, name) {
			n += count
		}
	}
	return n, err
}

// requestsSoFar returns how many requests c has counted itself.
func (c *client) requestsSoFar() int64 {
	if c.requests == nil {
		return 0
	}
	return c.requests()
}

// counted returns how many requests the clients have counted themselves.
func counted(clients []*client) (n int64) {
	for _, c := range clients {
		n += c.requestsSoFar()
	}
	return n
}
