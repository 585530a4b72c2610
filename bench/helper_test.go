package main

import (
	"os"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	if serveHelper() { // the tests' program is its own helper
		return
	}
	os.Exit(m.Run())
}

func TestHelperEndsWithItsInput(t *testing.T) {
	h, err := startHelper(t.Context(), selfPath(), "delay")
	if err != nil {
		t.Fatal(err)
	}
	var addrs []string
	if err := h.call(t.Context(), "Delay.Start", DelayArgs{Servers: []string{"127.0.0.1:1"}, CPU: -1}, &addrs); err != nil || len(addrs) != 1 {
		t.Errorf("Delay.Start = %v, %v, want one address", addrs, err)
	}
	h.stop()
	if h.cmd.ProcessState == nil || !h.cmd.ProcessState.Success() {
		t.Errorf("the helper has ended with %v, want success", h.cmd.ProcessState)
	}
}

func TestAwakeHelpersWork(t *testing.T) {
	all, err := keepAwake(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if canKeepAwake && len(all) != cpus {
		t.Errorf("%d helpers for %d CPUs", len(all), cpus)
	}
	ran := func() time.Duration { return all[:min(1, len(all))].ran() } // on the first CPU
	before := ran()
	if err := all.asleepWhile(t.Context(), 0, func() error {
		time.Sleep(time.Second) // it pauses in the middle of its time slice
		before = ran()
		time.Sleep(200 * time.Millisecond)
		return nil
	}); err != nil {
		t.Errorf("asleepWhile = %v", err)
	}
	if used := ran() - before; used > 100*time.Millisecond {
		t.Errorf("a helper has used %v of its CPU while it should pause for 200 ms", used)
	}
	all.stop()
	for _, h := range all {
		if !h.cmd.ProcessState.Success() {
			t.Errorf("a helper has ended with %v, want success", h.cmd.ProcessState)
		}
	}
}
