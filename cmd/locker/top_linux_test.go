package main

import (
	"strings"
	"syscall"
	"testing"
	"time"
)

// seeIn reads lines up to one that has text in it.
func (c console) seeIn(t *testing.T, text string) {
	t.Helper()
	for end := time.Now().Add(patience); ; {
		line := next(t, c.out)
		if strings.Contains(line, text) {
			return
		}
		if line == "<end>" || time.Now().After(end) {
			t.Fatalf("the terminal doesn't show %q", text)
		}
	}
}

func TestTop(t *testing.T) {
	env := fileEnv(t)
	c, cmd := startOnTerminal(t, env, "top", "--every", "100ms")
	c.seeIn(t, "0 locks, 0 waiting")
	_, release := hold(t, env, "--holder", "a test") // while it is open
	c.seeIn(t, "* x ")
	c.typeIn(t, "\r")
	c.seeIn(t, "x on file, key ")
	c.seeIn(t, "a test")
	c.typeIn(t, "\x1b")
	c.seeIn(t, "NAME") // what is typed together with an Escape is another key
	c.typeIn(t, "/nothing\r")
	c.seeIn(t, "filter: nothing")
	c.seeIn(t, "s sort") // not in the filter any more
	c.typeIn(t, "\x1b")
	c.seeIn(t, " x ")
	c.typeIn(t, "b")
	c.seeIn(t, "can't be taken away from its holder on file")
	c.typeIn(t, "j") // the message stays up to the next key
	release()
	c.seeIn(t, "0 locks, 0 waiting")
	c.typeIn(t, "q")
	c.seeIn(t, "\x1b[?1049l") // the screen that was there before
	if err := cmd.Wait(); err != nil {
		t.Errorf("after q locker ends with %v", err)
	}
}

// Ctrl-C is typed at a terminal that makes no signal of it.
func TestTopEnds(t *testing.T) {
	c, cmd := startOnTerminal(t, fileEnv(t), "top")
	c.seeIn(t, "NAME")
	c.typeIn(t, ctrlC)
	c.seeIn(t, "\x1b[?1049l")
	if err := cmd.Wait(); err != nil {
		t.Errorf("after Ctrl-C locker ends with %v", err)
	}
	c, cmd = startOnTerminal(t, fileEnv(t), "top")
	c.seeIn(t, "NAME")
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	c.seeIn(t, "\x1b[?1049l")
	if _ = cmd.Wait(); cmd.ProcessState.ExitCode() != exitSignal+int(syscall.SIGTERM) {
		t.Errorf("after SIGTERM: %v", cmd.ProcessState)
	}
}

func TestTopWithoutATerminal(t *testing.T) {
	if code, stdout, stderr := runToEnd(t, fileEnv(t), "top"); code != exitUsage || stdout != "" || !strings.Contains(stderr, "locker ls") {
		t.Errorf("code %d, stdout %q, stderr %q, want %d and the other command", code, stdout, stderr, exitUsage)
	}
}
