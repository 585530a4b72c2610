//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package main

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/filebackend"
)

func TestExitCodes(t *testing.T) {
	notExecutable := filepath.Join(t.TempDir(), "notes.txt")
	if err := os.WriteFile(notExecutable, []byte("#!/bin/sh\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	badInterpreter := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(badInterpreter, []byte("neither a script nor a program"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name   string
		args   []string
		want   int
		stderr string
	}{
		{"success", []string{"x", "--", "true"}, 0, ""},
		{"its own", []string{"x", "--", "sh", "-c", "exit 7"}, 7, ""},
		{"its own, 255", []string{"x", "--", "sh", "-c", "exit 255"}, 255, ""},
		{"flags of CMD", []string{"x", "--", "sh", "-c", `test "$1 $2 $3" = "--wait -- --help"`, "sh", "--wait", "--", "--help"}, 0, ""},
		{"TERM", []string{"x", "--", "sh", "-c", "kill -TERM $$"}, 128 + 15, ""},
		{"KILL", []string{"x", "--", "sh", "-c", "kill -KILL $$"}, 128 + 9, ""},
		{"INT without a terminal", []string{"x", "--", "sh", "-c", "kill -INT $$"}, 128 + 2, ""},
		{"not found", []string{"x", "--", "no-such-command"}, 127, "executable file not found"},
		{"no such file", []string{"x", "--", "./no/such/command"}, 127, "no such file"},
		{"not executable", []string{"x", "--", notExecutable}, 126, "permission denied"},
		{"not a program", []string{"x", "--", badInterpreter}, 126, "exec format error"},
		{"requirements met", []string{"--require", "efficiency,exclusion-kernel", "--require", "clocks-none", "x", "--", "true"}, 0, ""},
		{"service", []string{"--backend", "file:///dev/null/locks", "x", "--", "true"}, exitService, "not a directory"},
	} {
		t.Run(test.name, func(t *testing.T) {
			code, stdout, stderr := runToEnd(t, fileEnv(t), append([]string{"run", "--quiet"}, test.args...)...)
			if code != test.want || stdout != "" {
				t.Errorf("code %d, stdout %q, want code %d and nothing", code, stdout, test.want)
			}
			if test.stderr == "" && stderr != "" {
				t.Errorf("stderr = %q, want nothing", stderr)
			}
			if test.stderr != "" && (!strings.HasPrefix(stderr, "locker: ") || !strings.Contains(stderr, test.stderr)) {
				t.Errorf("stderr = %q, want a line of locker with %q", stderr, test.stderr)
			}
		})
	}
}

func TestEnvironment(t *testing.T) {
	env := fileEnv(t, "LOCKER_NAME=outer", "LOCKER_TOKEN=1", "OTHER=kept")
	var last int64
	for range 3 {
		_, stdout, _ := runToEnd(t, env, "run", "a name/with ümlaut", "--", "sh", "-c", `echo "$LOCKER_NAME:$OTHER:$LOCKER_TOKEN"`)
		token, found := strings.CutPrefix(strings.TrimSpace(stdout), "a name/with ümlaut:kept:")
		n, err := strconv.ParseInt(token, 10, 64)
		if !found || err != nil || n <= last {
			t.Fatalf("CMD printed %q, want name, OTHER and a token above %d", stdout, last)
		}
		last = n
	}
}

func TestDefaultBackendIsInTheUsersHome(t *testing.T) {
	home := locksDir(t)
	if code, _, stderr := runToEnd(t, environ(t, "HOME="+home), "run", "x", "--", "true"); code != 0 {
		t.Fatalf("code %d, stderr %q", code, stderr)
	}
	var files []string
	_ = filepath.WalkDir(home, func(path string, _ os.DirEntry, _ error) error {
		files = append(files, path)
		return nil
	})
	if !strings.Contains(strings.Join(files, "\n"), "locker") {
		t.Errorf("files in the home directory: %q, want one of locker", files)
	}
}

func TestInputAndOutputPassThrough(t *testing.T) {
	input := bytes.Repeat([]byte("0123456789abcdef\x00\n"), 1<<16)
	extra, write := pipe(t)
	go func() {
		defer write.Close()
		_, _ = io.WriteString(write, "from descriptor 3")
	}()
	cmd := exec.Command(self(t), "run", "--quiet", "x", "--", "sh", "-c", "cat; cat <&3 >&2")
	cmd.Env = fileEnv(t)
	cmd.Stdin = bytes.NewReader(input)
	cmd.ExtraFiles = []*os.File{extra}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.Output()
	_ = extra.Close()
	if err != nil || !bytes.Equal(stdout, input) || stderr.String() != "from descriptor 3" {
		t.Errorf("error %v, %d bytes, stderr %q, want nil, the %d bytes of the input, and what descriptor 3 has",
			err, len(stdout), stderr.String(), len(input))
	}
}

func TestWaitIsAnnouncedOnce(t *testing.T) {
	env := fileEnv(t)
	first, release := hold(t, env)
	second := startLocker(t, env, "run", "x", "--", "echo", "second")
	want(t, second.errOut, "locker: waiting for x")
	release()
	want(t, second.out, "second")
	wantEnd(t, second.errOut)
	first.wantCode(t, 1) // read has met the end of its input
	second.wantCode(t, 0)
}

func TestHeld(t *testing.T) {
	t.Parallel()
	env := fileEnv(t)
	hold(t, env)
	who := "\n"
	if locker.InspectionHolder.Check(filebackend.Guarantees()) == nil {
		who = "; locker show x says who has it\n"
	}
	for _, test := range []struct {
		flags  []string
		least  time.Duration
		stderr []string
	}{
		{[]string{"--no-wait"}, 0, []string{"lock is held" + who}},
		{[]string{"--no-wait", "--quiet"}, 0, nil},
		{[]string{"--wait", "3s"}, 3 * time.Second, []string{"waiting for x", "lock is held: context deadline exceeded" + who}},
		{[]string{"--wait", "2s", "-q"}, 2 * time.Second, nil},
	} {
		started := time.Now()
		code, stdout, stderr := runToEnd(t, env, append(append([]string{"run"}, test.flags...), "x", "--", "echo", "never")...)
		if took := time.Since(started); took < test.least {
			t.Errorf("%q: took %v, want at least %v", test.flags, took, test.least)
		}
		if code != exitHeld || stdout != "" || strings.Count(stderr, "\n") != len(test.stderr) {
			t.Errorf("%q: code %d, stdout %q, stderr %q, want code %d and %d lines on stderr",
				test.flags, code, stdout, stderr, exitHeld, len(test.stderr))
		}
		for _, line := range test.stderr {
			if !strings.Contains(stderr, line) {
				t.Errorf("%q: stderr %q, want %q in it", test.flags, stderr, line)
			}
		}
	}
}

func TestSignalEndsAWait(t *testing.T) {
	env := fileEnv(t)
	_, release := hold(t, env)
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT} {
		waiter := startLocker(t, env, "run", "x", "--", "echo", "never")
		want(t, waiter.errOut, "locker: waiting for x")
		waiter.signal(t, sig)
		waiter.wantCode(t, 128+int(sig))
		want(t, waiter.errOut, "locker: no longer waiting for x: "+sig.String())
		wantEnd(t, waiter.errOut)
		wantEnd(t, waiter.out)
	}
	last := startLocker(t, env, "run", "x", "--", "echo", "last")
	want(t, last.errOut, "locker: waiting for x")
	release()
	want(t, last.out, "last")
	last.wantCode(t, 0)
}

// The lock is CMD's until CMD has ended, whatever signals locker gets meanwhile.
func TestLockIsHeldUntilCmdHasEnded(t *testing.T) {
	env := fileEnv(t)
	p := startLocker(t, env, "run", "x", "--", self(t), "signals", "stubborn")
	wantReady(t, p.out)
	for range 3 {
		p.signal(t, syscall.SIGTERM)
		want(t, p.out, syscall.SIGTERM.String())
		if code, _, _ := runToEnd(t, env, "run", "--no-wait", "x", "--", "true"); code != exitHeld {
			t.Fatalf("code of another = %d while CMD runs, want %d", code, exitHeld)
		}
	}
	_ = p.stdin.Close()
	p.wantCode(t, 0)
	if code, _, stderr := runToEnd(t, env, "run", "--no-wait", "x", "--", "true"); code != 0 {
		t.Errorf("code of another = %d (%s) after CMD has ended, want 0", code, stderr)
	}
}

// A lock outlives a CMD that is stopped, and a locker that is: on the file backend nothing ends by
// time.
func TestStoppedHolderKeepsTheLock(t *testing.T) {
	env := fileEnv(t)
	p, release := hold(t, env)
	p.signal(t, syscall.SIGSTOP)
	if code, _, stderr := runToEnd(t, env, "run", "--wait", "2s", "x", "--", "true"); code != exitHeld {
		t.Errorf("code of another = %d (%s), want %d", code, stderr, exitHeld)
	}
	p.signal(t, syscall.SIGCONT)
	release()
	p.wantCode(t, 1)
	if code, _, stderr := runToEnd(t, env, "run", "--no-wait", "x", "--", "true"); code != 0 {
		t.Errorf("code of the next = %d (%s), want 0", code, stderr)
	}
}

// A process that CMD leaves running has inherited the lock's descriptor, but the lock is released
// all the same.
func TestBackgroundProcessDoesNotKeepTheLock(t *testing.T) {
	env := fileEnv(t)
	p := startLocker(t, env, "run", "x", "--", "sh", "-c", quote(self(t))+" signals deaf & read line")
	left := wantReady(t, p.out)
	_ = p.stdin.Close()
	p.wantCode(t, 1) // of read
	if code, _, stderr := runToEnd(t, env, "run", "--no-wait", "x", "--", "true"); code != 0 {
		t.Errorf("code of the next = %d (%s), want 0", code, stderr)
	}
	if err := syscall.Kill(left, syscall.SIGTERM); err != nil {
		t.Fatalf("the process that CMD left running: %v", err)
	}
	want(t, p.out, syscall.SIGTERM.String())
	wantEnd(t, p.out)
}

// A URL of another service is a name like any other.
func TestURLAsAName(t *testing.T) {
	env := fileEnv(t)
	for _, args := range [][]string{{"run", "s3://bucket/key", "--", "true"}, {"show", "s3://bucket/key"}, {"ls", "s3://"}} {
		if code, _, stderr := runToEnd(t, env, args...); code != 0 {
			t.Errorf("%q: code %d, stderr %q, want 0", args, code, stderr)
		}
	}
}
