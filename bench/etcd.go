package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// startEtcd starts a cluster of three members. All run on this machine, so a member waits for the others
// for less time than it would elsewhere. The history is compacted every five minutes, as it should be
// everywhere: otherwise the data in memory would grow by some MB a second.
func startEtcd(ctx context.Context) (_ *service, err error) {
	const members = 3
	var forClients, forMembers, cluster [members]string
	for i := range members {
		for _, to := range []*string{&forClients[i], &forMembers[i]} {
			port, err := freePort()
			if err != nil {
				return nil, err
			}
			*to = fmt.Sprintf("127.0.0.1:%d", port)
		}
		cluster[i] = fmt.Sprintf("m%d=http://%s", i, forMembers[i])
	}
	var servers containers
	defer func() {
		if err != nil {
			err = errors.Join(err, servers.stop())
		}
	}()
	for i := range members {
		c, err := startContainer(ctx, "etcd", inMemory("/bench"), "etcd", "--name", fmt.Sprint("m", i), "--data-dir", "/bench",
			"--auto-compaction-mode", "revision", "--auto-compaction-retention", "1000",
			"--listen-client-urls", "http://"+forClients[i], "--advertise-client-urls", "http://"+forClients[i],
			"--listen-peer-urls", "http://"+forMembers[i], "--initial-advertise-peer-urls", "http://"+forMembers[i],
			"--initial-cluster", strings.Join(cluster[:], ","), "--log-level", "error", "--quota-backend-bytes", "8589934592")
		if err != nil {
			return nil, err
		}
		servers = append(servers, c)
	}
	e := etcdEndpoints(forClients[:])
	admin, err := e.client()
	if err != nil {
		return nil, err
	}
	var status *clientv3.StatusResponse
	if err := retry(ctx, func(ctx context.Context) (err error) {
		if _, err = admin.Get(ctx, "ready"); err != nil {
			return err
		}
		status, err = admin.Status(ctx, "http://"+e[0])
		return err
	}); err != nil {
		return nil, errors.Join(err, admin.Close())
	}
	return &service{
		description:   "etcd " + status.Version + ", three members, " + whereDataIs(),
		addrs:         e,
		requestCounts: e.messageCounts,
		servers:       servers,
		stop:          func() error { return errors.Join(admin.Close(), servers.stop()) },
	}, nil
}

func etcdPeers(addrs []string) peers {
	e := etcdEndpoints(addrs)
	return peers{
		bare:       e.put(),
		byHand:     e.handWrittenTxns(),
		load:       []peer{e.locker(), e.sharedMutex(), e.ownMutex()},
		handOff:    []peer{e.locker(), e.sharedMutex(), e.ownMutex()},
		heldLeases: []peer{e.locker(), e.sharedMutex()},
		waiters:    []peer{e.locker(), e.ownMutex()},
	}
}

// messageCounts returns how many messages of each method the members have received, including
// messages on streams.
func (e etcdEndpoints) messageCounts(ctx context.Context) (map[string]int64, error) {
	counts := make(map[string]int64)
	for _, member := range e {
		if err := addMessageCounts(ctx, member, counts); err != nil {
			return nil, err
		}
	}
	return counts, nil
}

func addMessageCounts(ctx context.Context, member string, counts map[string]int64) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+member+"/metrics", nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() { // grpc_server_msg_received_total{grpc_method="Txn",…} 12
		rest, found := strings.CutPrefix(lines.Text(), "grpc_server_msg_received_total{")
		if !found {
			continue
		}
		labels, value, _ := strings.Cut(rest, "} ")
		_, method, _ := strings.Cut(labels, `grpc_method="`)
		method, _, _ = strings.Cut(method, `"`)
		n, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return fmt.Errorf("metrics: invalid line %q: want a number at its end", lines.Text())
		}
		counts[method] += int64(n)
	}
	return lines.Err()
}

func etcdGoals() []goal {
	goals := []goal{
		{scenario: heldLeasesName, metric: "heap", limit: 12},
		{scenario: heldLeasesName, metric: "goroutines", limit: 100},
		{scenario: heldLeasesName, metric: "renewals", limit: 20},
	}
	goals = append(goals, throughputGoals(0, map[int]float64{1: 1, 4: 1, 64: 1}, sharedMutexName, ownMutexName)...)
	for _, n := range contenderCounts {
		goals = append(goals,
			goal{scenario: handOffName(n), metric: "gap, median", ratio: true, limit: 3},
			goal{scenario: handOffName(n), metric: "gap, p99", ratio: true, limit: 15},
			goal{scenario: handOffName(n), metric: "requests an acquisition", limit: 4})
	}
	for _, n := range lockerCounts {
		goals = append(goals, waitersGoals(n)...)
	}
	return goals
}
