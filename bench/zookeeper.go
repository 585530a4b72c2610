package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// startZooKeeper starts an ensemble of three servers. All run on this machine, so a server waits for the
// others for less time than it would elsewhere.
func startZooKeeper(ctx context.Context) (_ *service, err error) {
	const size = 3
	var clients zooKeeperServers
	var lines []string
	for i := range size {
		var ports [3]int
		for j := range ports {
			if ports[j], err = freePort(); err != nil {
				return nil, err
			}
		}
		clients = append(clients, fmt.Sprintf("127.0.0.1:%d", ports[0]))
		lines = append(lines, fmt.Sprintf("server.%d=127.0.0.1:%d:%d;127.0.0.1:%d", i+1, ports[1], ports[2], ports[0]))
	}
	var servers containers
	defer func() {
		if err != nil {
			err = errors.Join(err, servers.stop())
		}
	}()
	for i := range size {
		c, err := startContainer(ctx, "zookeeper", inMemory("/data", "/datalog"), limited(
			"env", fmt.Sprint("ZOO_MY_ID=", i+1), "ZOO_SERVERS="+strings.Join(lines, " "),
			"ZOO_MAX_CLIENT_CNXNS=0", "ZOO_ADMINSERVER_ENABLED=false", "ZOO_4LW_COMMANDS_WHITELIST=mntr",
			"ZK_SERVER_HEAP=512", "/docker-entrypoint.sh", "zkServer.sh", "start-foreground")...)
		if err != nil {
			return nil, err
		}
		servers = append(servers, c)
	}
	var version string
	var addrs zooKeeperServers
	if err := retry(ctx, func(ctx context.Context) (err error) { // a server that isn't in a quorum doesn't answer mntr
		if version, _, err = clients.packetsReceived(ctx); err == nil {
			addrs, err = clients.leaderLast(ctx)
		}
		return err
	}); err != nil {
		return nil, err
	}
	return &service{
		description: "ZooKeeper " + version + ", three servers, " + whereDataIs(),
		addrs:       addrs,
		requestCounts: func(ctx context.Context) (map[string]int64, error) {
			_, packets, err := clients.packetsReceived(ctx)
			return map[string]int64{"packet": packets}, err
		},
		servers:  servers,
		warmTime: 20 * time.Second,
		stop:     servers.stop,
	}, nil
}

// A follower passes writes on to the leader, which a client of the leader saves. A client chooses its
// server at random. So in acquire + release all peers have the same follower.
func zooKeeperPeers(addrs []string) peers {
	z := zooKeeperServers(addrs)
	follower := z[:1]
	return peers{
		bare:       follower.set(),
		byHand:     follower.ephemeralNode(),
		load:       []peer{follower.locker(), follower.zkLock()},
		handOff:    []peer{z.locker(), z.zkLock()},
		heldLeases: []peer{z.locker(), z.zkLock()},
		waiters:    []peer{z.locker(), z.zkLock()},
	}
}

// packetsReceived returns the version of the servers, and how many packets all of them have
// received so far, including the pings of clients.
func (z zooKeeperServers) packetsReceived(ctx context.Context) (version string, packets int64, err error) {
	for _, addr := range z {
		text, err := fourLetterWord(ctx, addr, "mntr")
		if err != nil {
			return "", 0, err
		}
		found := false
		for line := range strings.Lines(text) {
			key, value, _ := strings.Cut(strings.TrimSpace(line), "\t")
			switch key {
			case "zk_version":
				version, _, _ = strings.Cut(value, "-")
			case "zk_packets_received":
				n, err := strconv.ParseInt(value, 10, 64)
				if err != nil {
					return "", 0, fmt.Errorf("mntr: invalid line %q: want a number", line)
				}
				packets += n
				found = true
			}
		}
		if !found {
			return "", 0, fmt.Errorf("mntr doesn't count packets: %q", text)
		}
	}
	return version, packets, nil
}

// leaderLast returns the servers with the leader as the last one.
func (z zooKeeperServers) leaderLast(ctx context.Context) (sorted zooKeeperServers, err error) {
	var leader zooKeeperServers
	for _, addr := range z {
		text, err := fourLetterWord(ctx, addr, "mntr")
		if err != nil {
			return nil, err
		}
		if strings.Contains(text, "zk_server_state\tleader\n") {
			leader = append(leader, addr)
		} else {
			sorted = append(sorted, addr)
		}
	}
	if len(leader) != 1 {
		return nil, fmt.Errorf("mntr: %d servers are leaders", len(leader))
	}
	return append(sorted, leader...), nil
}

// fourLetterWord sends one of ZooKeeper's four-letter commands, and returns the answer.
func fourLetterWord(ctx context.Context, addr, word string) (string, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, word); err != nil {
		return "", err
	}
	text, err := io.ReadAll(conn)
	return string(text), err
}

func zooKeeperGoals() []goal {
	goals := []goal{
		{scenario: heldLeasesName, metric: "heap", limit: 12},
		{scenario: heldLeasesName, metric: "goroutines", limit: 100},
		{scenario: heldLeasesName, metric: "renewals", limit: 20},
	}
	goals = append(goals, throughputGoals(0, map[int]float64{1: 1, 4: 1, 64: 1}, zkLockName)...)
	for _, n := range contenderCounts {
		goals = append(goals,
			goal{scenario: handOffName(n), metric: "gap, median", ratio: true, limit: 1.7},
			goal{scenario: handOffName(n), metric: "requests an acquisition", limit: 3})
	}
	for _, n := range lockerCounts {
		goals = append(goals, waitersGoals(n)...)
	}
	return goals
}
