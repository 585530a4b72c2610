//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A short job that is started in several places at about the same time is done once.
func TestAtLeast(t *testing.T) {
	t.Parallel()
	env := fileEnv(t)
	const atLeast = 6 * time.Second // all must have started by then
	var starts []*process
	began := time.Now()
	for range 3 {
		starts = append(starts, startLocker(t, env, "run", "--no-wait", "--quiet", "--held-code", "0", "--at-least", atLeast.String(), "x", "--", "echo", "done"))
		time.Sleep(50 * time.Millisecond) // the difference of their clocks
	}
	done := 0
	for _, p := range starts {
		for line := range p.out {
			if line == "done" {
				done++
			}
		}
		p.wantCode(t, 0)
		wantEnd(t, p.errOut)
	}
	if took := time.Since(began); done != 1 || took < atLeast {
		t.Errorf("the job was done %d times, and the lock was kept for %v, want once and %v", done, took, atLeast)
	}
	if code, _, stderr := runToEnd(t, env, "run", "--no-wait", "x", "--", "true"); code != 0 {
		t.Errorf("code %d, stderr %q after the time is over, want 0", code, stderr)
	}
}

// CMD's code is the end's, also when it fails, and a line says why locker stays.
func TestAtLeastIsAnnounced(t *testing.T) {
	t.Parallel()
	p := startLocker(t, fileEnv(t), "run", "--at-least", "5s", "x", "--", "sh", "-c", "exit 7")
	want(t, p.errOut, "locker: CMD has ended; keeping x until it was held for 5s")
	wantEnd(t, p.errOut)
	p.wantCode(t, 7)
	code, _, stderr := runToEnd(t, fileEnv(t), "run", "--at-least", "100ms", "x", "--", "sleep", "0.5")
	if code != 0 || stderr != "" {
		t.Errorf("code %d, stderr %q, want 0 and nothing: the time was over before CMD", code, stderr)
	}
}

// A signal ends the time in which the lock is only kept. Others have no effect then.
func TestAtLeastIsInterrupted(t *testing.T) {
	env := fileEnv(t)
	p := startLocker(t, env, "run", "--at-least", "1h", "x", "--", "sh", "-c", "exit 7")
	want(t, p.errOut, "locker: CMD has ended; keeping x until it was held for 1h0m0s")
	for _, sig := range []syscall.Signal{syscall.SIGUSR1, syscall.SIGWINCH} {
		_ = p.Process.Signal(sig)
	}
	if code, _, stderr := runToEnd(t, env, "run", "--no-wait", "x", "--", "true"); code != exitHeld || !strings.Contains(stderr, "held") {
		t.Errorf("code %d, stderr %q, want that the lock is held", code, stderr)
	}
	_ = p.Process.Signal(syscall.SIGTERM)
	want(t, p.errOut, "locker: no longer keeping x: terminated")
	p.wantCode(t, 7)
}

func TestHeldCode(t *testing.T) {
	t.Parallel()
	env := fileEnv(t)
	_, release := hold(t, env)
	defer release()
	for _, test := range []struct {
		args   []string
		want   int
		stderr string
	}{
		{[]string{"--no-wait"}, exitHeld, "held"},
		{[]string{"--no-wait", "--held-code", "0"}, 0, "held"},
		{[]string{"--no-wait", "--held-code", "3", "--quiet"}, 3, ""},
		{[]string{"--wait", "2s", "--held-code", "255"}, 255, "held"},
	} {
		code, _, stderr := runToEnd(t, env, append(append([]string{"run"}, test.args...), "x", "--", "true")...)
		if code != test.want || !strings.Contains(stderr, test.stderr) || test.stderr == "" && stderr != "" {
			t.Errorf("%q: code %d, stderr %q, want %d and %q", test.args, code, stderr, test.want, test.stderr)
		}
	}
	// A lock that is held around is a mistake, and not what --held-code is about.
	me := self(t)
	if code, _, stderr := runToEnd(t, env, "run", "a", "--", me, "run", "--no-wait", "--held-code", "0", "a", "--", "true"); code != exitHeld {
		t.Errorf("code %d, stderr %q for a lock that is held around, want %d", code, stderr, exitHeld)
	}
}

// A CMD that the system refuses to start is reported at once, and not when the lock is given back.
func TestAtLeastOfACommandThatDoesNotStart(t *testing.T) {
	for text, test := range map[string]struct {
		says string
		code int
	}{
		"\x7fELF":             {"exec format error", exitNotStarted},
		"#!/nowhere/at/all\n": {"no such file", exitNotFound}, // its interpreter is missing
	} {
		cmd := filepath.Join(t.TempDir(), "cmd")
		if err := os.WriteFile(cmd, []byte(text), 0o755); err != nil { //nolint:gosec // it must be executable
			t.Fatal(err)
		}
		p := startLocker(t, fileEnv(t), "run", "--at-least", "1h", "x", "--", cmd)
		if line := next(t, p.errOut); !strings.Contains(line, test.says) {
			t.Errorf("stderr begins with %q, want the reason, %s", line, test.says)
		}
		want(t, p.errOut, "locker: CMD was not started; keeping x until it was held for 1h0m0s")
		_ = p.Process.Signal(syscall.SIGTERM)
		want(t, p.errOut, "locker: no longer keeping x: terminated")
		wantEnd(t, p.errOut)
		p.wantCode(t, test.code)
	}
}
