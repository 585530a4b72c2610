package main

import (
	"errors"
	"os"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"
)

// pin keeps this process off the servers' CPU if there are other CPUs. A new thread inherits the
// CPUs of the thread that starts it, and a new process as well.
func pin() error {
	if cpus < 2 {
		return nil
	}
	var rest unix.CPUSet
	if err := unix.SchedGetaffinity(0, &rest); err != nil {
		return err
	}
	rest.Clear(serverCPU())
	if rest.Count() == 0 {
		return nil
	}
	if err := pinTo(&rest); err != nil {
		return err
	}
	runtime.GOMAXPROCS(rest.Count())
	pinned = true
	return nil
}

// pinSelf keeps this process on one CPU.
func pinSelf(cpu int) error {
	var one unix.CPUSet
	one.Set(cpu)
	return pinTo(&one)
}

func pinTo(set *unix.CPUSet) error {
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return err
	}
	for _, thread := range threads {
		id, err := strconv.Atoi(thread.Name())
		if err != nil {
			return err
		}
		if err := unix.SchedSetaffinity(id, set); err != nil && !errors.Is(err, unix.ESRCH) {
			return err
		}
	}
	return nil
}
