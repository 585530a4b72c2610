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

// startEtcd starts a cluster of three members, which write to the disk before they answer, as they
// do by default. All run on this machine, so a member waits for the others for less time than it
// would elsewhere.
func startEtcd(ctx context.Context) (_ *service, err error) {
	const members = 3
	var clients, peers, cluster [members]string
	for i := range members {
		for _, to := range []*string{&clients[i], &peers[i]} {
			port, err := freePort()
			if err != nil {
				return nil, err
			}
			*to = fmt.Sprintf("http://127.0.0.1:%d", port)
		}
		cluster[i] = fmt.Sprintf("m%d=%s", i, peers[i])
	}
	var servers containers
	defer func() {
		if err != nil {
			err = errors.Join(err, servers.stop())
		}
	}()
	for i := range members {
		c, err := startContainer(ctx, "etcd", "etcd", "--name", fmt.Sprint("m", i), "--data-dir", "/bench",
			"--listen-client-urls", clients[i], "--advertise-client-urls", clients[i],
			"--listen-peer-urls", peers[i], "--initial-advertise-peer-urls", peers[i],
			"--initial-cluster", strings.Join(cluster[:], ","), "--log-level", "error", "--quota-backend-bytes", "8589934592")
		if err != nil {
			return nil, err
		}
		servers = append(servers, c)
	}
	e := etcdEndpoints(clients[:])
	admin, err := e.client()
	if err != nil {
		return nil, err
	}
	var status *clientv3.StatusResponse
	if err := retry(ctx, func(ctx context.Context) (err error) {
		if _, err = admin.Get(ctx, "ready"); err != nil {
			return err
		}
		status, err = admin.Status(ctx, clients[0])
		return err
	}); err != nil {
		return nil, errors.Join(err, admin.Close())
	}
	return &service{
		description:    "etcd " + status.Version + ", three members",
		bare:           e.put(),
		byHand:         e.handWrittenTxns(),
		loadPeers:      []peer{e.locker(), e.sharedMutex(), e.ownMutex()},
		handOffPeers:   []peer{e.locker(), e.sharedMutex(), e.ownMutex()},
		heldLeasePeers: []peer{e.locker(), e.sharedMutex()},
		waiterPeers:    []peer{e.locker(), e.ownMutex()},
		goals:          etcdGoals(),
		requestCounts:  e.messageCounts,
		servers:        servers,
		stop:           func() error { return errors.Join(admin.Close(), servers.stop()) },
	}, nil
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
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, member+"/metrics", nil)
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
		{scenario: loadName(1), metric: "median", ratio: true, limit: 2.4},
		{scenario: heldLeasesName, metric: "heap", limit: 12},
		{scenario: heldLeasesName, metric: "goroutines", limit: 100},
		{scenario: heldLeasesName, metric: "renewals", limit: 20},
	}
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
