//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package main

import (
	"strings"
	"testing"
)

// What a user copies must not be another command than it seems to be, and has no URL.
func TestCommandThatShowsTheHolder(t *testing.T) {
	for want, a := range map[string]acquirer{
		"locker show deploy/production":           {name: "deploy/production"},
		"locker show --permits tape":              {name: "tape", permits: 3},
		"locker show --backend URL über/s3://b:1": {name: "über/s3://b:1", url: "redis://u:p@h", flagURL: true},
		"locker show NAME":                        {name: "a; b"},
		"locker show --permits NAME":              {name: "-x", permits: 1},
	} {
		if got := a.showCommand(); got != want {
			t.Errorf("of %q: %q, want %q", a.name, got, want)
		}
	}
}

// A backend that somebody has named isn't the default.
func TestRequireOfABackendThatIsNamed(t *testing.T) {
	url := "file://" + locksDir(t)
	for _, args := range [][]string{{"run"}, {"run", "--backend", url}} {
		args = append(args, "--require", "scope-network", "x", "--", "true")
		if code, _, stderr := runToEnd(t, environ(t, "LOCKER_URL="+url), args...); code != exitUsage || strings.Contains(stderr, "without LOCKER_URL") {
			t.Errorf("%q: code %d, stderr %q, want %d and nothing of the default", args, code, stderr, exitUsage)
		}
	}
}

// A locker run that waits for a lock which is held around it would wait without end, because nobody
// else could release it.
func TestLockThatIsHeldAround(t *testing.T) {
	other := "LOCKER_URL=file://" + locksDir(t)
	me := self(t)
	for _, test := range []struct {
		what string
		args []string
		own  bool
	}{
		{"the same", []string{"run", "a", "--", me, "run", "--quiet", "--wait", "10s", "a", "--", "true"}, true},
		{"through a shell", []string{"run", "a", "--", "sh", "-c", quote(me) + " run --wait 10s a -- true; exit $?"}, true},
		{"through another", []string{"run", "a", "--", me, "run", "b", "--", me, "run", "--wait", "10s", "a", "--", "true"}, true},
		{"another name", []string{"run", "a", "--", me, "run", "b", "--", "true"}, false},
		{"another backend", []string{"run", "a", "--", "env", other, me, "run", "a", "--", "true"}, false},
		{"one after the other", []string{"run", "a", "--", "sh", "-c", quote(me) + " run b -- true; " + quote(me) + " run b -- true"}, false},
	} {
		code, _, stderr := runToEnd(t, fileEnv(t), test.args...)
		if own := code == exitHeld && strings.Contains(stderr, `"a": lock is held by the caller itself`); own != test.own || !own && code != 0 {
			t.Errorf("%s: code %d, stderr %q", test.what, code, stderr)
		}
	}
}

// A locker run that has lost the lock doesn't keep what it runs from taking it.
func TestLockThatIsLostAround(t *testing.T) {
	t.Parallel()
	const script = `trap '"$0" run --wait 10s a -- echo taken; exit' TERM; while :; do sleep 0.05; done`
	// The shell must have set its trap before the loss.
	_, stdout, stderr := runToEnd(t, fileEnv(t), "run", "--max-hold", "3s", "--grace", "20s", "a", "--", "sh", "-c", script, self(t))
	if strings.TrimSpace(stdout) != "taken" {
		t.Errorf("stdout %q, stderr %q, want that the lock is taken in the trap", stdout, stderr)
	}
}

// What has outlived the locker run around it, as a daemon does, waits like anybody else.
func TestLockThatWasHeldAround(t *testing.T) {
	env := fileEnv(t)
	_, held, _ := runToEnd(t, env, "run", "a", "--", "sh", "-c", "echo $LOCKER_HELD")
	held = strings.TrimSpace(held)
	if held == "" {
		t.Fatal("LOCKER_HELD is empty in CMD")
	}
	if code, _, stderr := runToEnd(t, append(env, "LOCKER_HELD="+held), "run", "--no-wait", "a", "--", "true"); code != 0 {
		t.Errorf("code %d, stderr %q after the locker run around it has ended, want 0", code, stderr)
	}
	for _, odd := range []string{"x", ":", "1:", "-1:" + held, held + ":" + held, strings.Repeat("0:0 ", 100)} {
		if code, _, stderr := runToEnd(t, append(env, "LOCKER_HELD="+odd), "run", "a", "--", "true"); code != 0 {
			t.Errorf("LOCKER_HELD=%q: code %d, stderr %q, want it ignored", odd, code, stderr)
		}
	}
}

func TestDigest(t *testing.T) {
	const url = "redis://user:secret@host:1/0?password=secret&prefix=a"
	own := digest(url, "name")
	if len(own) != 32 || strings.Contains(own, "name") {
		t.Errorf("digest = %q", own)
	}
	for what, same := range map[string]string{
		"password":              "redis://user:other@host:1/0?password=secret&prefix=a",
		"password in the query": "redis://user:secret@host:1/0?password=other&prefix=a",
		"without a password":    "redis://user@host:1/0?prefix=a",
		"letters of the host":   "REDIS://user:secret@HOST:1/0/?prefix=a",
	} {
		if digest(same, "name") != own {
			t.Errorf("%s: another digest", what)
		}
	}
	for what, other := range map[string]string{
		"user": "redis://u@host:1/0?prefix=a", "host": "redis://user@h:1/0?prefix=a", "port": "redis://user@host:2/0?prefix=a",
		"path": "redis://user@host:1/1?prefix=a", "prefix": "redis://user@host:1/0?prefix=b", "scheme": "rediss://user@host:1/0?prefix=a",
	} {
		if digest(other, "name") == own {
			t.Errorf("another %s has the same digest", what)
		}
	}
	if digest(url, "name2") == own {
		t.Error("another name has the same digest")
	}
}
