package main

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

// An idle virtual CPU falls asleep, and what should run there then waits for it to wake: a request
// takes 100 to 500 µs in place of 40. So a process of the lowest priority (SCHED_IDLE) works on each
// CPU. Whatever else wants to run there should run at once.
//
// But where several processes share a CPU, Linux 6.18 lets them wait for this one, for 40 to 120 ms.
// That was seen on the servers' CPU while the proxy of an added round trip worked there too. So the
// process pauses there while that proxy is in use: next to the added time, a CPU wakes quickly.

// Awake is the helper that keeps one CPU awake.
type Awake struct {
	paused  atomic.Bool
	resumed chan struct{} // gets a value when paused is no longer set
}

// Pause lets the CPU fall asleep, or keeps it awake again.
func (a *Awake) Pause(paused bool, _ *int) error {
	a.paused.Store(paused)
	if !paused {
		select {
		case a.resumed <- struct{}{}:
		default:
		}
	}
	return nil
}

// work uses the CPU, except while it is paused.
func (a *Awake) work() {
	for {
		for a.paused.Load() {
			<-a.resumed
		}
	}
}

// awakeCPUs are the running helpers.
type awakeCPUs []*helper

// keepAwake starts a helper for each CPU, on systems that have such a priority.
func keepAwake(ctx context.Context) (all awakeCPUs, err error) {
	if !canKeepAwake {
		return nil, nil
	}
	for cpu := range cpus {
		h, err := startHelper(ctx, selfPath(), "awake")
		if err != nil {
			all.stop()
			return nil, err
		}
		all = append(all, h)
		if err := h.call(ctx, "Awake.Start", cpu, new(int)); err != nil {
			all.stop()
			return nil, err
		}
	}
	return all, nil
}

// asleepWhile calls f, and lets a CPU fall asleep meanwhile.
func (all awakeCPUs) asleepWhile(ctx context.Context, cpu int, f func() error) error {
	if len(all) <= cpu {
		return f()
	}
	if err := all[cpu].call(ctx, "Awake.Pause", true, new(int)); err != nil {
		return err
	}
	return errors.Join(f(), all[cpu].call(ctx, "Awake.Pause", false, new(int)))
}

func (all awakeCPUs) stop() {
	for _, h := range all {
		h.stop()
	}
}

// ran is how long the helpers have run.
func (all awakeCPUs) ran() (sum time.Duration) {
	for _, h := range all {
		sum += cpuTimeOf(h.cmd.Process.Pid, false)
	}
	return sum
}
