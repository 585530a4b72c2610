package main

import (
	"strings"
	"syscall"
	"testing"
	"time"
)

const (
	ctrlC = "\x03"
	ctrlZ = "\x1a"
)

func TestTerminalIsReadByCmd(t *testing.T) {
	c := onTerminal(t, "x", "--", self(t), "reader")
	c.typeIn(t, "hello\n")
	c.see(t, "read: hello")
	c.typeIn(t, "\x04") // end of input
	c.see(t, "shell: exit code 0, terminal given back: true")
}

func TestCtrlCReachesCmdOnce(t *testing.T) {
	c := onTerminal(t, "x", "--", self(t), "signals", "deaf")
	pid := c.seePid(t, "ready")
	c.typeIn(t, ctrlC)
	c.see(t, "interrupt")
	// Were there a second interrupt on its way, it would come before this.
	c.typeIn(t, "\x1c") // Ctrl-\
	if line := strings.TrimRight(next(t, c.out), "\r"); !strings.HasSuffix(line, "quit") {
		t.Errorf("after one Ctrl-C and one Ctrl-\\ CMD has got %q", line)
	}
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	c.see(t, "shell: exit code 9, terminal given back: true")
}

// Shells go on with a script after Ctrl-C unless the command was ended by SIGINT itself.
func TestCtrlCEndsTheJob(t *testing.T) {
	t.Run("CMD doesn't read", func(t *testing.T) {
		c := onTerminal(t, "x", "--", "sh", "-c", "echo ready $$; exec sleep 100")
		c.seePid(t, "ready")
		c.typeIn(t, ctrlC)
		c.see(t, "shell: ended by interrupt, terminal given back: true")
	})
	t.Run("CMD reads", func(t *testing.T) {
		c := onTerminal(t, "x", "--", self(t), "reader")
		c.typeIn(t, "hello\n")
		c.see(t, "read: hello")
		c.typeIn(t, ctrlC)
		c.see(t, "shell: ended by interrupt, terminal given back: true")
	})
	t.Run("script", func(t *testing.T) {
		env := fileEnv(t)
		script := quote(self(t)) + " run x -- " + quote(self(t)) + " reader; echo the script goes on"
		c, _ := startOnTerminal(t, env, "shell", "bash", "-c", script)
		c.typeIn(t, "hello\n")
		c.see(t, "read: hello")
		c.typeIn(t, ctrlC)
		c.see(t, "shell: ended by interrupt, terminal given back: true")
	})
	t.Run("locker waits", func(t *testing.T) {
		env := fileEnv(t)
		hold(t, env)
		c, _ := startOnTerminal(t, env, "shell", self(t), "run", "x", "--", "true")
		c.see(t, "locker: waiting for x")
		c.typeIn(t, ctrlC)
		c.see(t, "shell: ended by interrupt, terminal given back: true")
	})
}

func TestCtrlZStopsTheJob(t *testing.T) {
	for _, test := range []struct {
		name  string
		reads bool
		args  []string
	}{
		{"CMD begins to read", false, []string{"x", "--", self(t), "reader"}},
		{"CMD waits for input", true, []string{"x", "--", self(t), "reader"}},
		{"locker under locker", true, []string{"x", "--", self(t), "run", "y", "--", self(t), "reader"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := onTerminal(t, test.args...)
			pid := c.seePid(t, "reader")
			if test.reads {
				c.typeIn(t, "hello\n")
				c.see(t, "read: hello")
				wantState(t, pid, "S")
			}
			for range 3 {
				c.typeIn(t, ctrlZ)
				c.see(t, "shell: stopped, terminal given back: true")
				wantState(t, pid, "T")
				c.typeIn(t, "fg\n")
				c.typeIn(t, "again\n")
				c.see(t, "read: again")
				wantState(t, pid, "S")
			}
			c.typeIn(t, "\x04")
			c.see(t, "shell: exit code 0, terminal given back: true")
		})
	}
}

func TestCtrlZStopsACmdThatNeverReads(t *testing.T) {
	c := onTerminal(t, "x", "--", self(t), "signals", "deaf")
	pid := c.seePid(t, "ready")
	for range 2 {
		c.typeIn(t, ctrlZ)
		c.see(t, "shell: stopped, terminal given back: true")
		wantState(t, pid, "T")
		c.typeIn(t, "fg\n")
		c.see(t, "continued")
	}
	c.typeIn(t, ctrlC)
	c.see(t, "interrupt") // the job still has the foreground
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	c.see(t, "shell: exit code 9, terminal given back: true")
}

// Without a shell above it there is nobody who could continue a job, and Ctrl-Z has no effect.
func TestCtrlZWithoutAShell(t *testing.T) {
	c, cmd := startOnTerminal(t, fileEnv(t), "run", "x", "--", self(t), "reader")
	pid := c.seePid(t, "reader")
	c.typeIn(t, "hello\n")
	c.see(t, "read: hello")
	c.typeIn(t, ctrlZ)
	c.typeIn(t, "again\n")
	c.see(t, "read: again")
	wantState(t, pid, "S")
	c.typeIn(t, "\x04")
	if err := cmd.Wait(); err != nil {
		t.Errorf("locker = %v, want nil", err)
	}
}

// A lease that was lost while the job was stopped is not used when it is continued.
func TestLossWhileStopped(t *testing.T) {
	t.Parallel()
	const longest = 6 * time.Second // CMD must be stopped before
	c := onTerminal(t, "--max-hold", longest.String(), "x", "--", self(t), "reader")
	pid := c.seePid(t, "reader")
	c.typeIn(t, "hello\n")
	c.see(t, "read: hello")
	c.typeIn(t, ctrlZ)
	c.see(t, "shell: stopped, terminal given back: true")
	wantState(t, pid, "T")
	time.Sleep(longest) // a process that is stopped can't say that it is over
	c.typeIn(t, "fg\n")
	c.see(t, "CMD gets TERM now and KILL after 10s")
	c.see(t, "shell: exit code 119, terminal given back: true")
}
