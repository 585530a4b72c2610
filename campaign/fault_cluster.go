package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// clusterFaults are faults of a Cluster alone.
var clusterFaults = []fault{
	{name: "masters-kill", what: "all masters of the Cluster are killed (SIGKILL), and started again when their replicas have taken over",
		outlasts: true, sharded: true, hazard: failover, serviceFault: killMasters},
	{name: "reshard", what: "all keys of the Cluster, with their slots, move to another server while the section goes on, which lasts longer than the TTL",
		outlasts: true, harmless: true, sharded: true, serviceFault: reshard},
}

// killMasters lets the replicas take over, as an operator does who doesn't wait until the others have
// missed their masters for long enough.
func killMasters(ctx context.Context, s *service, _ schedule) error {
	pairs, err := clusterPairs(ctx, s.addrs)
	if err != nil {
		return err
	}
	var masters []int
	for _, p := range pairs {
		masters = append(masters, p.master)
	}
	if err := s.each(ctx, masters, "kill"); err != nil {
		return err
	}
	for _, p := range pairs {
		err := retry(ctx, func(ctx context.Context) error { return takeOver(ctx, s.addrs[p.replica]) })
		if err != nil {
			return err
		}
	}
	return s.each(ctx, masters, "start")
}

func takeOver(ctx context.Context, replica string) error {
	c := redis.NewClient(&redis.Options{Addr: replica, ContextTimeoutEnabled: true})
	defer c.Close()
	if roleOf(ctx, replica) == "master" {
		return nil
	}
	if err := c.Do(ctx, "cluster", "failover", "takeover").Err(); err != nil {
		return err
	}
	return fmt.Errorf("server %s has been asked to take over", replica)
}

// reshard moves each slot that has keys to the next master, as an operator's tool does.
func reshard(ctx context.Context, s *service, _ schedule) error {
	pairs, err := clusterPairs(ctx, s.addrs)
	if err != nil || len(pairs) != clusterMasters {
		return errors.Join(err, fmt.Errorf("%d masters have a replica", len(pairs)))
	}
	var masters []string
	for _, p := range pairs {
		masters = append(masters, s.addrs[p.master])
	}
	var slots [clusterMasters][]int64
	var ids [clusterMasters]string
	err = eachServer(masters, func(i int, c *redis.Client) (err error) {
		if ids[i], err = c.ClusterMyID(ctx).Result(); err == nil {
			slots[i], err = slotsWithKeys(ctx, c)
		}
		return err
	})
	if err != nil {
		return err
	}
	for from := range masters {
		for _, slot := range slots[from] {
			if err := moveSlot(ctx, masters, ids[:], slot, from, (from+1)%clusterMasters); err != nil {
				return fmt.Errorf("slot %d: %w", slot, err)
			}
		}
	}
	return nil
}

func slotsWithKeys(ctx context.Context, c *redis.Client) (slots []int64, err error) {
	keys := c.Scan(ctx, 0, "*", 1000).Iterator()
	for keys.Next(ctx) {
		slot, err := c.ClusterKeySlot(ctx, keys.Val()).Result()
		if err != nil {
			return nil, err
		}
		if !slices.Contains(slots, slot) {
			slots = append(slots, slot)
		}
	}
	return slots, keys.Err()
}

// halfMoved is for how long a slot has keys on both servers, and clients are redirected.
const halfMoved = 20 * time.Millisecond

// moveSlot moves a slot with its keys. The server that gets the slot is the first to be told that it
// has it; otherwise no server would have it for a moment.
func moveSlot(ctx context.Context, addrs, ids []string, slot int64, from, to int) error {
	source, target := redis.NewClient(&redis.Options{Addr: addrs[from]}), redis.NewClient(&redis.Options{Addr: addrs[to]})
	defer source.Close()
	defer target.Close()
	if err := target.Do(ctx, "cluster", "setslot", slot, "importing", ids[from]).Err(); err != nil {
		return err
	}
	if err := source.Do(ctx, "cluster", "setslot", slot, "migrating", ids[to]).Err(); err != nil {
		return err
	}
	for {
		keys, err := source.ClusterGetKeysInSlot(ctx, int(slot), 1).Result()
		if err != nil {
			return err
		}
		if len(keys) == 0 {
			break
		}
		err = source.Do(ctx, "migrate", "127.0.0.1", portOf(addrs[to]), keys[0], 0, 5000).Err()
		if err != nil && !strings.HasPrefix(err.Error(), "NOKEY") { // it may have expired
			return err
		}
		wait(ctx, time.After(halfMoved))
	}
	if err := target.Do(ctx, "cluster", "setslot", slot, "node", ids[to]).Err(); err != nil {
		return err
	}
	return eachServer(addrs, func(_ int, c *redis.Client) error {
		return c.Do(ctx, "cluster", "setslot", slot, "node", ids[to]).Err()
	})
}
