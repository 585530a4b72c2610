//go:build unix

package itest

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

// command is a process of cmd/locker.
type command struct {
	*exec.Cmd
	stdin io.WriteCloser
	lines chan string
	ended chan struct{}
}

func startCommand(t *testing.T, binary, url string, args ...string) *command {
	t.Helper()
	c := &command{Cmd: exec.CommandContext(t.Context(), binary, args...), lines: make(chan string, 100), ended: make(chan struct{})}
	c.Env = append(os.Environ(), "LOCKER_URL="+url)
	c.Stderr = os.Stderr
	stdin, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	c.stdin = stdin
	go func() {
		defer close(c.ended)
		for s := bufio.NewScanner(stdout); s.Scan(); {
			c.lines <- s.Text()
		}
		close(c.lines)
		_ = c.Wait()
	}()
	return c
}

// heldLine is a line of locker hold.
type heldLine struct {
	Event, Token, Cause, Error string
	Deadline                   time.Time
}

// commandLimit is how long a line, or the end, may be awaited.
const commandLimit = time.Minute

func (c *command) line(t *testing.T) string {
	t.Helper()
	select {
	case line, ok := <-c.lines:
		if !ok {
			t.Fatal("the output has ended")
		}
		return line
	case <-time.After(commandLimit):
		t.Fatal("no line in time")
	}
	return ""
}

func (c *command) event(t *testing.T, event string) (l heldLine) {
	t.Helper()
	line := c.line(t)
	if err := json.Unmarshal([]byte(line), &l); err != nil || l.Event != event {
		t.Fatalf("line %s, %v, want event %q", line, err, event)
	}
	return l
}

func (c *command) signal(t *testing.T, sig syscall.Signal) {
	t.Helper()
	if err := c.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
}

func (c *command) wantCode(t *testing.T, want int) {
	t.Helper()
	select {
	case <-c.ended:
	case <-time.After(commandLimit):
		t.Fatal("the process hasn't ended in time")
	}
	if got := c.ProcessState.ExitCode(); got != want {
		t.Errorf("exit code %d, want %d", got, want)
	}
}
