//go:build linux || darwin || freebsd || openbsd || dragonfly

package filebackend_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/filebackend"
)

// A program that only wants to run once needs neither the Locker nor the lease any more. The garbage
// collector must not free its lock.
func TestForgottenLeaseIsHeld(t *testing.T) {
	for what, forget := range map[string]func(t *testing.T, dir string) any{
		"all forgotten": func(t *testing.T, dir string) any { forgetLease(t, dir); return nil },
		"Done is kept":  func(t *testing.T, dir string) any { return forgetLease(t, dir) },
	} {
		t.Run(what, func(t *testing.T) {
			dir := t.TempDir()
			kept := forget(t, dir)
			t.Cleanup(func() { filebackend.EndGranted(dir) })
			for range 5 {
				collectGarbage(t)
			}
			if _, err := locker.TryAcquire(t.Context(), open(t, dir), "x"); !errors.Is(err, locker.ErrHeld) {
				t.Fatalf("TryAcquire = %v, want ErrHeld", err)
			}
			runtime.KeepAlive(kept)
			filebackend.EndGranted(dir)
			acquireRelease(t, open(t, dir), "x")
		})
	}
}

// forgetLease acquires a lease and keeps nothing of it, and of its Locker, but what it returns.
//
//go:noinline
func forgetLease(t *testing.T, dir string) <-chan struct{} {
	l, err := filebackend.New(dir)
	if err != nil {
		t.Fatal(err)
	}
	lease, err := locker.TryAcquire(t.Context(), l, "x")
	if err != nil {
		t.Fatal(err)
	}
	return lease.Done()
}

// collectGarbage returns when the garbage collector has closed a file that was forgotten.
func collectGarbage(t *testing.T) {
	t.Helper()
	r := forgetPipe(t)
	defer r.Close()
	end := time.Now().Add(atOnce)
	if err := r.SetReadDeadline(end); err != nil {
		t.Fatal(err)
	}
	runtime.GC()
	if n, err := r.Read(make([]byte, 1)); n > 0 || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("the garbage collector has not closed a file: %v", err)
	}
}

// forgetPipe makes a pipe and forgets the end to which is written.
//
//go:noinline
func forgetPipe(t *testing.T) *os.File {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	_ = w
	return r
}

// What keeps granted locks from the garbage collector keeps nothing that has ended, however it has.
func TestNothingIsKeptAfterTheEnd(t *testing.T) {
	for what, end := range map[string]func(t *testing.T, dir string, l locker.Locker, lease locker.Lease){
		"release": func(t *testing.T, _ string, _ locker.Locker, lease locker.Lease) { release(t, lease) },
		"close": func(t *testing.T, _ string, l locker.Locker, _ locker.Lease) {
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		},
		"loss": func(t *testing.T, dir string, l locker.Locker, lease locker.Lease) {
			short, err := l.Acquire(t.Context(), "y", locker.WithMaxHold(time.Millisecond))
			if err != nil {
				t.Fatal(err)
			}
			<-short.Done()
			release(t, lease)
			if err := l.Close(); err != nil { // waits for the removal
				t.Error(err)
			}
		},
		"failed acquisitions": func(t *testing.T, dir string, l locker.Locker, lease locker.Lease) {
			if _, err := locker.TryAcquire(t.Context(), l, "x"); !errors.Is(err, locker.ErrHeld) {
				t.Errorf("TryAcquire = %v, want ErrHeld", err)
			}
			release(t, lease)
			if err := os.Truncate(filepath.Join(dir, filebackend.FileName("x", 0)), 0); err != nil {
				t.Fatal(err)
			}
			if _, err := locker.TryAcquire(t.Context(), l, "x"); err == nil { // locked, and without a token
				t.Error("a lock was granted of a damaged file")
			}
		},
	} {
		t.Run(what, func(t *testing.T) {
			dir := t.TempDir()
			l := open(t, dir)
			lease := acquire(t, l, "x")
			if n := len(filebackend.Granted(dir)); n != 1 {
				t.Errorf("%d files are kept for one lease", n)
			}
			end(t, dir, l, lease)
			if n := len(filebackend.Granted(dir)); n != 0 {
				t.Errorf("%d files are kept for no lease", n)
			}
		})
	}
}
