package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// When locker is killed CMD dies with it, and the next one gets the lock at once.
func TestKilledLockerTakesCmdAlong(t *testing.T) {
	env := fileEnv(t)
	p := startLocker(t, env, "run", "x", "--", self(t), "signals", "stubborn")
	wantReady(t, p.out)
	next := startLocker(t, env, "run", "x", "--", "echo", "next")
	want(t, next.errOut, "locker: waiting for x")
	p.signal(t, syscall.SIGKILL)
	killed := time.Now()
	wantEnd(t, p.out) // the helper is gone; it got no signal that it could have printed
	want(t, next.out, "next")
	if took := time.Since(killed); took > 5*time.Second {
		t.Errorf("the next holder came %v after the death of the last, want it soon: nothing has to expire", took)
	}
	next.wantCode(t, 0)
}

// What CMD has started isn't killed with it, but it has inherited the lock, and keeps it.
func TestSurvivorKeepsTheLock(t *testing.T) {
	env := fileEnv(t)
	p := startLocker(t, env, "run", "x", "--", "sh", "-c", "exec 3<&0; "+quote(self(t))+" signals stubborn <&3 & wait")
	survivor := wantReady(t, p.out)
	p.signal(t, syscall.SIGKILL)
	<-p.ended
	if err := syscall.Kill(survivor, syscall.SIGUSR1); err != nil {
		t.Fatalf("survivor: %v", err)
	}
	want(t, p.out, syscall.SIGUSR1.String()) // it lives
	if code, _, stderr := runToEnd(t, env, "run", "--no-wait", "x", "--", "true"); code != exitHeld {
		t.Errorf("code of another = %d (%s) while a process survives, want %d", code, stderr, exitHeld)
	}
	_ = p.stdin.Close()
	wantEnd(t, p.out)
	if code, _, stderr := runToEnd(t, env, "run", "--wait", patience.String(), "x", "--", "true"); code != 0 {
		t.Errorf("code of another = %d (%s) after the survivor, want 0", code, stderr)
	}
}

// Fifty at once read, add and write a file that nothing else protects, while one before them is
// killed as it holds the lock.
func TestCounter(t *testing.T) {
	const contenders = 50
	env := fileEnv(t)
	counter := filepath.Join(t.TempDir(), "counter")
	if err := os.WriteFile(counter, []byte("0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	victim, _ := hold(t, env)
	script := `read n <"$0"; echo $((n+1)) >"$0"`
	var started, ended sync.WaitGroup
	started.Add(contenders)
	for range contenders {
		ended.Go(func() {
			cmd := exec.CommandContext(t.Context(), self(t), "run", "--quiet", "x", "--", "sh", "-c", script, counter)
			cmd.Env = env
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			err := cmd.Start()
			started.Done()
			if err == nil {
				err = cmd.Wait()
			}
			if err != nil {
				t.Errorf("locker = %v (%s), want nil", err, stderr.String())
			}
		})
	}
	started.Wait()
	victim.signal(t, syscall.SIGKILL)
	killed := time.Now()
	ended.Wait()
	t.Logf("%d acquisitions by as many processes in %v", contenders, time.Since(killed))
	got, err := os.ReadFile(counter)
	if err != nil || strings.TrimSpace(string(got)) != strconv.Itoa(contenders) {
		t.Errorf("counter = %q, %v, want %d", got, err, contenders)
	}
}
