package main

import (
	"context"
	"slices"
	"time"

	"github.com/fencedlock/locker"
)

// backends is the table of what can be measured.
//
// How to add one: a row here, and a file named for it with a function like startRedis, which starts the servers (startServer) and
// returns what follows; a second file for the peers, if they take much room (redispeers.go). All scenarios then run on it. What
// they need of it:
//
//   - bare, the smallest request that does what a lock can't do without: PING where memory is enough, one durable write where the
//     service writes each lock to disks. Ratios are multiples of it.
//   - byHand, the commands of a lock as one writes them without a library, over a pool of 64 connections where the client has one.
//   - contestants for each scenario: this project under the name subject, then its peers. Leave out who can't do a thing at all
//     (wait, renew). A peer that fails in a round loses that round; this project may not.
//   - goals: what this project is to reach, by scenario and metric. A goal without a figure is a mistake, and ends the run.
//   - requests: the service's own counters. They tell requests of clients from what the service does by itself.
var backends = []backend{
	{"redis", startRedis},
	{"redlock", startRedlock},
	{"etcd", startEtcd},
	{"zookeeper", startZooKeeper},
	{"postgres", startPostgres},
}

// backend is a service that keeps locks, with those who use it.
type backend struct {
	name  string
	start func(ctx context.Context) (*service, error)
}

// service is a backend that runs, and what is measured on it.
type service struct {
	description string // what it is, for the head of the table

	// What others are compared with: a request that does nothing, whose release does not even ask, and the commands of a
	// lock without a library.
	bare, byHand peer

	loadPeers      []peer // acquire and release, beside those two
	handOffPeers   []peer // many want one lock
	heldLeasePeers []peer // many leases
	waiterPeers    []peer // many waiters
	goals          []goal

	// requests is how often the service was asked to carry out each command, by name, so far.
	requestCounts func(ctx context.Context) (map[string]int64, error)
	servers       []*container
	stop          func() error
}

// contestant is one way to lock.
type peer struct {
	name string

	// sends are the commands by which its clients ask for something, and none that the service carries out as a part of those.
	commands []string

	// renews is how often it renews a lease that is held; zero: never.
	renewInterval time.Duration

	// open makes a client of its own, as in another process.
	open func(ctx context.Context) (*client, error)
}

// client is what one process has.
type client struct {
	// lock waits for the lock of that name, or until ctx is over.
	lock  func(ctx context.Context, name string) (release, error)
	close func() // what it can't clean up goes with the service

	// messages is how many messages it has sent so far, of one request or many; nil where nobody can tell.
	messages func() int64
}

// ours makes a client of a Locker, which it closes before the rest.
func lockerClient(l locker.Locker, rest func(), messages func() int64) *client {
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
			rest()
		},
		messages: messages,
	}
}

// release gives a lock back.
type release func(ctx context.Context) error

// openAll opens n clients of c.
func (c peer) openAll(ctx context.Context, n int) (clients []*client, err error) {
	for range n {
		cl, err := c.open(ctx)
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

// asked is how many requests of c the service has had so far.
func (s *service) requestsOf(ctx context.Context, c peer) (n int64, err error) {
	calls, err := s.requestCounts(ctx)
	for name, count := range calls {
		if slices.Contains(c.commands, name) {
			n += count
		}
	}
	return n, err
}
