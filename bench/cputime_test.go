package main

import (
	"os"
	"testing"
	"time"
)

func TestCPUTimes(t *testing.T) {
	if _, err := os.Stat("/proc/self/schedstat"); err != nil {
		t.Skip("this system doesn't report how long processes have run")
	}
	ran, busy := cpuTimeOf(os.Getpid(), true).ran, busyTime()
	for began := time.Now(); time.Since(began) < 50*time.Millisecond; {
	}
	if more := cpuTimeOf(os.Getpid(), true).ran; more <= ran {
		t.Errorf("CPU time of this process = %v, and after more work %v, want it larger", ran, more)
	}
	if more := busyTime(); busy <= 0 || more <= busy {
		t.Errorf("busyTime = %v, and after more work %v, want it larger", busy, more)
	}
}
