package main

import (
	"context"
	"time"
)

// An idle virtual CPU falls asleep, and what should run there then waits for it to wake: a request
// takes 100 to 500 µs in place of 40. So a process of the lowest priority (SCHED_IDLE) works on each
// CPU. Whatever else wants to run there runs at once.

// Awake is the helper that keeps one CPU awake.
type Awake struct{}

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
