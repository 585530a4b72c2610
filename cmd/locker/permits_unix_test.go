//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/filebackend"
)

// slotScript says which slot CMD has, and ends with its input.
const slotScript = `echo "slot $LOCKER_SLOT of $LOCKER_NAME, token ${LOCKER_TOKEN:+yes}"; read line`

func TestPermits(t *testing.T) {
	env := fileEnv(t)
	args := []string{"run", "--permits", "2", "x", "--", "sh", "-c", slotScript}
	first, second := startLocker(t, env, args...), startLocker(t, env, args...)
	got := []string{next(t, first.out), next(t, second.out)}
	slices.Sort(got)
	if got[0] != "slot 1 of x, token yes" || got[1] != "slot 2 of x, token yes" {
		t.Errorf("two runs have %q, want slots 1 and 2", got)
	}
	text := "lock is held"
	if locker.InspectionHolder.Check(filebackend.Guarantees()) == nil {
		text += "; locker show --permits x says who has it\n"
	}
	if code, _, stderr := runToEnd(t, env, "run", "--permits", "2", "--no-wait", "x", "--", "true"); code != exitHeld || !strings.Contains(stderr, text) {
		t.Errorf("a third run: code %d, stderr %q, want %d", code, stderr, exitHeld)
	}
	if code, stdout, stderr := runToEnd(t, env, "run", "--permits", "3", "--no-wait", "x", "--", "sh", "-c", "echo $LOCKER_SLOT"); code != 0 || stdout != "3\n" {
		t.Errorf("one of three permits: code %d, stdout %q, stderr %q, want slot 3", code, stdout, stderr)
	}
	if code, stdout, stderr := runToEnd(t, env, "run", "--no-wait", "x", "--", "sh", "-c", "echo ${LOCKER_SLOT-none}"); code != 0 || stdout != "none\n" {
		t.Errorf("the lock: code %d, stdout %q, stderr %q, want no slot", code, stdout, stderr)
	}
	third := startLocker(t, env, args...)
	want(t, third.errOut, "locker: waiting for x")
	_ = first.stdin.Close()
	first.wantCode(t, 1) // of read
	if got := next(t, third.out); !strings.HasPrefix(got, "slot ") {
		t.Errorf("the run that waited has %q", got)
	}
	_ = second.stdin.Close()
	_ = third.stdin.Close()
	second.wantCode(t, 1)
	third.wantCode(t, 1)
}

func TestPermitsThatAreInvalid(t *testing.T) {
	for _, n := range []string{"0", "-1", "1001", "x"} {
		code, _, stderr := runToEnd(t, fileEnv(t), "run", "--permits="+n, "x", "--", "true")
		if code != exitUsage || !strings.Contains(stderr, "--permits") {
			t.Errorf("--permits=%s: code %d, stderr %q, want %d", n, code, stderr, exitUsage)
		}
	}
}

// Runs that have all the permits wait for CMD, so CMD must not wait for them.
func TestPermitsThatAreHeldAround(t *testing.T) {
	me := self(t)
	inner := []string{me, "run", "--quiet", "--wait", "10s", "--permits", "2", "x", "--"}
	for _, test := range []struct {
		depth int
		own   bool
	}{{1, false}, {2, false}, {3, true}} {
		args := []string{"true"}
		for range test.depth {
			args = append(slices.Clone(inner), args...)
		}
		code, _, stderr := runToEnd(t, fileEnv(t), args[1:]...)
		if own := code == exitHeld && strings.Contains(stderr, "have all 2 permits"); own != test.own || !own && code != 0 {
			t.Errorf("%d runs inside of each other: code %d, stderr %q", test.depth, code, stderr)
		}
	}
	code, _, stderr := runToEnd(t, fileEnv(t), "run", "x", "--", me, "run", "--permits", "1", "--no-wait", "x", "--", me, "run", "y", "--", "true")
	if code != 0 {
		t.Errorf("a permit below the lock of its name: code %d, stderr %q", code, stderr)
	}
}

// A slot belongs to the name of its own run.
func TestSlotOfARunAround(t *testing.T) {
	me := self(t)
	code, stdout, stderr := runToEnd(t, fileEnv(t), "run", "--permits", "2", "x", "--", me, "run", "y", "--", "sh", "-c", `echo "$LOCKER_NAME ${LOCKER_SLOT-none}"`)
	if code != 0 || stdout != "y none\n" {
		t.Errorf("a lock below a permit: code %d, stdout %q, stderr %q, want no slot", code, stdout, stderr)
	}
}
