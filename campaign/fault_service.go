package main

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/fencedlock/locker/integration/netns"
)

// serviceFaults are faults of the servers. They happen once in a round, to all victims at the same
// time.
var serviceFaults = []fault{
	{name: "restart", what: "all servers are stopped in good order and started with their data",
		serviceFault: func(ctx context.Context, s *service, _ schedule) error { return s.restart(ctx) }},
	{name: "crash", what: "all servers are killed (SIGKILL) and started with the data that they have written",
		awaitsRival: true, hazard: crash,
		serviceFault: func(ctx context.Context, s *service, _ schedule) error { return s.crash(ctx) }},
	{name: "data-loss", what: "all servers are killed (SIGKILL) and started without any data",
		awaitsRival: true, hazard: dataLoss,
		serviceFault: func(ctx context.Context, s *service, _ schedule) error { return s.recreate(ctx) }},
	{name: "majority-stop", what: "a majority of the servers is stopped (SIGSTOP) for longer than the TTL, and then continues",
		awaitsRival: true, serviceFault: stopMajority},
	{name: "connections", what: "500 clients, 50 at a time and shared by all servers, connect and disconnect, up to four times a second for longer than the TTL",
		outlasts: true, harmless: true, needs: packetsUsable, serviceFault: storm},
}

// stopMajority leaves no majority for longer than the TTL. Of one server that one is stopped.
func stopMajority(ctx context.Context, s *service, _ schedule) error {
	var majority []int
	for i := range len(s.ids)/2 + 1 {
		majority = append(majority, i)
	}
	return s.stopped(ctx, majority, func(ctx context.Context) error {
		wait(ctx, time.After(s.ttl*5/4))
		return nil
	})
}

const (
	stormClients = 500
	stormAtOnce  = 50 // of them are connected
	stormEach    = 250 * time.Millisecond
)

// storm begins a storm of connections, which goes on in the background for as long as the sections
// last. Its clients send nothing. Waves have their times, because on a fast machine they would
// otherwise take the processors from the servers.
//
// The clients are in the servers' network. At a port that Docker publishes, each of their connections
// would use a local port of Docker's relay for a minute. After some 28,000 it has none left, and the
// contenders can't connect either: that says nothing about the servers.
func storm(ctx context.Context, s *service, _ schedule) error {
	network, err := netns.New(processes(s.addrs, s.pid))
	if err != nil {
		return err
	}
	end := time.After(s.ttl * 5 / 4)
	s.background.Go(func() {
		waves := time.NewTicker(stormEach)
		defer waves.Stop()
		for {
			connectAll(ctx, s.addrs, network.Dial)
			select {
			case <-waves.C:
			case <-end:
				return
			case <-ctx.Done():
				return
			}
		}
	})
	return nil
}

func connectAll(ctx context.Context, addrs []string, dial dialFunc) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	places := make(chan struct{}, stormAtOnce)
	var all sync.WaitGroup
	for i := range stormClients {
		places <- struct{}{}
		all.Go(func() {
			defer func() { <-places }()
			conn, err := dial(ctx, "tcp", addrs[i%len(addrs)])
			if err == nil { // a server may refuse some
				disconnect(conn)
			}
		})
	}
	all.Wait()
}

// disconnect ends a connection by a reset. With the usual end the system keeps the local port for a
// minute.
func disconnect(conn net.Conn) {
	_ = conn.(*net.TCPConn).SetLinger(0)
	_ = conn.Close()
}
