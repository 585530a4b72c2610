package main

import (
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

const canKeepAwake = true

// Start keeps a CPU awake until this process ends.
func (a *Awake) Start(cpu int, _ *int) error {
	a.resumed = make(chan struct{}, 1)
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		started <- takeIdleTime(cpu)
		a.work()
	}()
	return <-started
}

// takeIdleTime makes this thread run on one CPU, when nothing else does.
func takeIdleTime(cpu int) error {
	var one unix.CPUSet
	one.Set(cpu)
	if err := unix.SchedSetaffinity(0, &one); err != nil {
		return fmt.Errorf("CPU %d: %w", cpu, err)
	}
	return unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_IDLE}, 0)
}
