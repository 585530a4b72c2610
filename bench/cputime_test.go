package main

import (
	"os"
	"testing"
	"time"
)

func TestCPUTimes(t *testing.T) {
	if _, err := os.Stat("/proc/self/schedstat"); err != nil {
		t.Skip("this system doesn't tell for how long processes have run")
	}
	ran, busy := cpuTimeOf(os.Getpid(), true).ran, busyTime()
	for began := time.Now(); time.Since(began) < 50*time.Millisecond; {
	}
	if more := cpuTimeOf(os.Getpid(), true).ran; more <= ran {
		t.Errorf("this process has run for %v, and after more work for %v", ran, more)
	}
	if more := busyTime(); busy <= 0 || more <= busy {
		t.Errorf("the CPUs have worked for %v, and after more work for %v", busy, more)
	}
}
