//go:build unix

package process

import (
	"os"
	"os/exec"
	"sync"
	"syscall"

	"github.com/fencedlock/locker/conformance/step"
)

// Start starts a program that calls [Serve] on its standard input and output. The program is killed
// when the case ends. On Linux Stop waits, for up to a second, until all threads of the program have
// stopped; elsewhere they may run on for a moment.
func Start(t step.T, cmd *exec.Cmd) Process {
	t.Helper()
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatalf("process: %v", err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatalf("process: %v", err)
	}
	if cmd.Stderr == nil {
		cmd.Stderr = os.Stderr
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("process: %v", err)
	}
	var once sync.Once
	kill := func() {
		once.Do(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait() // its error says that the process was killed
		})
	}
	t.Cleanup(kill)
	signal := func(s syscall.Signal) func() {
		return func() {
			if err := cmd.Process.Signal(s); err != nil {
				t.Errorf("process: %v: %v", s, err)
			}
		}
	}
	suspend := signal(syscall.SIGSTOP)
	stop := func() {
		suspend()
		awaitStopped(cmd.Process.Pid)
	}
	return New(in, out, kill, stop, signal(syscall.SIGCONT))
}
