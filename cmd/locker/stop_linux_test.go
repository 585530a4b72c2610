package main

import (
	"os/exec"
	"syscall"
	"testing"
)

// A Ctrl-Z that reaches a stopped process waits, and SIGCONT discards it.
func TestStopPending(t *testing.T) {
	cmd := exec.Command("sleep", "100")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	pid := cmd.Process.Pid
	for _, step := range []struct {
		signal syscall.Signal
		state  string
		want   bool
	}{
		{syscall.SIGSTOP, "T", false},
		{syscall.SIGTSTP, "T", true},
		{syscall.SIGCONT, "S", false},
	} {
		if err := syscall.Kill(pid, step.signal); err != nil {
			t.Fatal(err)
		}
		wantState(t, pid, step.state)
		if got := stopPending(pid); got != step.want {
			t.Errorf("after %v: stopPending = %v, want %v", step.signal, got, step.want)
		}
	}
	if stopPending(0) {
		t.Error("stopPending of no process = true")
	}
}
