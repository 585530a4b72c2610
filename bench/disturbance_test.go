package main

import (
	"context"
	"errors"
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

func TestMeasuringEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	q := &quiet{patience: time.Hour}
	if _, err := q.during(ctx, func() error { cancel(); return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("during = %v after the context has ended, want its error", err)
	}
	failed := errors.New("failed")
	if _, err := q.during(t.Context(), func() error { return failed }); !errors.Is(err, failed) {
		t.Errorf("during = %v, want %v", err, failed)
	}
}
