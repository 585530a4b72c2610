package main

import (
	"context"
	"os"
	"os/exec"
	"testing"
	"time"
)

func TestCPUTimes(t *testing.T) {
	if _, err := os.Stat("/proc/self/schedstat"); err != nil {
		t.Skip("this system doesn't report how long processes have run")
	}
	ran := cpuTimeOf(os.Getpid(), true)
	for began := time.Now(); time.Since(began) < 50*time.Millisecond; {
	}
	if more := cpuTimeOf(os.Getpid(), true); more <= ran {
		t.Errorf("CPU time of this process = %v, and after more work %v, want it larger", ran, more)
	}

	ended := endedChildren(os.Getpid())
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := exec.CommandContext(ctx, "sh", "-c", "while :; do :; done").Run(); err == nil {
		t.Fatal("the process ended before it was killed")
	}
	if more := endedChildren(os.Getpid()); more <= ended {
		t.Errorf("CPU time of processes that have ended = %v, and after another %v, want it larger", ended, more)
	}
}
