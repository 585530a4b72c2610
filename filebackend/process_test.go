//go:build linux || darwin || freebsd || openbsd || dragonfly

package filebackend_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/filebackend"
)

func TestKillFreesAtOnce(t *testing.T) {
	dir := t.TempDir()
	h := start(t, "hold", dir, "x")
	token := locker.Token(h.expect(t, "holds"))
	l := open(t, dir)
	if _, err := locker.TryAcquire(t.Context(), l, "x"); !errors.Is(err, locker.ErrHeld) {
		t.Fatalf("TryAcquire = %v, want ErrHeld", err)
	}
	h.kill(t)
	if next := acquire(t, l, "x").Token(); next <= token {
		t.Errorf("token %d after %d", next, token)
	}
}

func TestTokensRiseOverProcesses(t *testing.T) {
	dir := t.TempDir()
	var last int64
	for range 5 {
		h := start(t, "hold", dir, "x")
		token := h.expect(t, "holds")
		if token <= last {
			t.Errorf("token %d after %d", token, last)
		}
		last = token
		if err := h.stdin.Close(); err != nil {
			t.Fatal(err)
		}
		if err := h.Wait(); err != nil {
			t.Errorf("the holder: %v", err)
		}
	}
}

// There is no TTL: a stopped holder keeps the lock, and still has it when it continues.
func TestStoppedHolderKeepsLock(t *testing.T) {
	dir := t.TempDir()
	h := start(t, "hold", dir, "x")
	h.expect(t, "holds")
	if err := h.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(h.Process.Pid, &status, syscall.WUNTRACED, nil); err != nil || !status.Stopped() {
		t.Fatalf("the helper is not stopped: %v, %v", status, err)
	}
	l := open(t, dir)
	if _, err := locker.TryAcquire(t.Context(), l, "x"); !errors.Is(err, locker.ErrHeld) {
		t.Errorf("TryAcquire = %v, want ErrHeld", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := l.Acquire(ctx, "x"); !errors.Is(err, locker.ErrHeld) {
		t.Errorf("Acquire = %v, want ErrHeld", err)
	}
	if err := errors.Join(h.Process.Signal(syscall.SIGCONT), h.stdin.Close()); err != nil {
		t.Fatal(err)
	}
	acquire(t, l, "x")
}

// 50 processes at once, each of which reads, adds and writes: no update is lost, and tokens rise in
// the order of the critical sections. It is also their first use of the name.
func TestCounterOverProcesses(t *testing.T) {
	const processes = 50
	dir, data := t.TempDir(), t.TempDir()
	counter, log := filepath.Join(data, "counter"), filepath.Join(data, "tokens")
	if err := os.WriteFile(counter, []byte("0"), 0o600); err != nil {
		t.Fatal(err)
	}
	var all []*helper
	for range processes {
		all = append(all, start(t, "count", dir, "x", counter, log))
	}
	for _, h := range all {
		if err := h.Wait(); err != nil {
			t.Error(err)
		}
	}
	text, err := os.ReadFile(counter)
	if err != nil || string(text) != strconv.Itoa(processes) {
		t.Errorf("counter = %s, %v, want %d", text, err, processes)
	}
	text, err = os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	var last int64
	for line := range strings.Lines(string(text)) {
		token, err := strconv.ParseInt(strings.TrimSpace(line), 10, 64)
		if err != nil || token <= last {
			t.Errorf("token %q, %v after %d", line, err, last)
		}
		last = token
	}
}

// A child that was given the descriptor keeps the lock when its parent is killed, until it ends
// itself.
func TestInheritedDescriptorKeepsLock(t *testing.T) {
	dir := t.TempDir()
	parent := start(t, "inherit", dir, "x")
	parent.expect(t, "blocks")
	l := open(t, dir)
	parent.kill(t)
	if _, err := parent.Process.Wait(); err != nil {
		t.Fatal(err)
	}
	if _, err := locker.TryAcquire(t.Context(), l, "x"); !errors.Is(err, locker.ErrHeld) {
		t.Errorf("TryAcquire next to the child = %v, want ErrHeld", err)
	}
	if err := parent.stdin.Close(); err != nil {
		t.Fatal(err)
	}
	acquire(t, l, "x")
}

// startWithLock starts a child that has the lease's descriptor.
func startWithLock(t testing.TB, lease locker.Lease) *helper {
	t.Helper()
	h, _ := locker.As[filebackend.Handle](lease)
	f, err := h.File()
	if err != nil {
		t.Fatal(err)
	}
	child := startWith(t, []*os.File{f}, "block")
	child.expect(t, "blocks")
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return child
}

// Release unlocks for a child that has the descriptor, too.
func TestReleaseUnlocksForChild(t *testing.T) {
	dir := t.TempDir()
	a, b := open(t, dir), open(t, dir)
	lease := acquire(t, a, "x")
	child := startWithLock(t, lease)
	release(t, lease)
	if _, err := locker.TryAcquire(t.Context(), b, "x"); err != nil {
		t.Errorf("TryAcquire next to a child of the former holder = %v", err)
	}
	if err := child.stdin.Close(); err != nil {
		t.Fatal(err)
	}
}
