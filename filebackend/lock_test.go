//go:build linux || darwin || freebsd || openbsd || dragonfly

package filebackend_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/filebackend"
)

// atOnce is how long a test waits for what must come at once.
const atOnce = 20 * time.Second

// open returns a locker with files in dir, as another process would have it. It is closed with the
// test.
func open(t testing.TB, dir string) locker.Locker {
	t.Helper()
	l, err := filebackend.New(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Errorf("Close = %v", err)
		}
	})
	return l
}

func acquire(t testing.TB, l locker.Locker, name string) locker.Lease {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), atOnce)
	defer cancel()
	lease, err := l.Acquire(ctx, name)
	if err != nil {
		t.Fatal(err)
	}
	return lease
}

func release(t testing.TB, lease locker.Lease) {
	t.Helper()
	if err := lease.Release(context.Background()); err != nil {
		t.Fatal(err)
	}
}

func acquireRelease(t testing.TB, l locker.Locker, name string) locker.Token {
	t.Helper()
	lease := acquire(t, l, name)
	release(t, lease)
	return lease.Token()
}

func TestLeaseHasNoDeadline(t *testing.T) {
	l := open(t, t.TempDir())
	lease := acquire(t, l, "x")
	if !lease.Deadline().IsZero() || lease.Err() != nil || lease.Token() <= 0 {
		t.Errorf("deadline %v, err %v, token %d", lease.Deadline(), lease.Err(), lease.Token())
	}
	if err := lease.Renew(t.Context()); err != nil {
		t.Errorf("Renew = %v", err)
	}
	if _, err := l.Acquire(t.Context(), "y", locker.WithTTL(time.Hour)); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("Acquire with a TTL = %v, want ErrUnsupported", err)
	}
	if _, err := locker.TryAcquire(t.Context(), open(t, t.TempDir()), "x"); err != nil {
		t.Errorf("the lock is held in another directory too: %v", err)
	}
}

func TestHeldByOther(t *testing.T) {
	dir := t.TempDir()
	a, b := open(t, dir), open(t, dir)
	lease := acquire(t, a, "x")
	for _, l := range []locker.Locker{a, b} {
		if _, err := locker.TryAcquire(t.Context(), l, "x"); !errors.Is(err, locker.ErrHeld) {
			t.Errorf("TryAcquire = %v, want ErrHeld", err)
		}
	}
	release(t, lease)
	if token := acquireRelease(t, b, "x"); token <= lease.Token() {
		t.Errorf("token %d after %d", token, lease.Token())
	}
}

// Lockers in one process exclude each other as processes do, and tokens rise in the order of the
// critical sections.
func TestCounterInProcess(t *testing.T) {
	const lockers, goroutines, rounds = 4, 5, 5
	dir := t.TempDir()
	counter := 0 // the race detector sees it if two hold the lock
	var last locker.Token
	var all sync.WaitGroup
	for range lockers {
		l := open(t, dir)
		for range goroutines {
			all.Go(func() {
				for range rounds {
					err := locker.Do(t.Context(), l, "x", func(_ context.Context, lease locker.Lease) error {
						counter++
						if lease.Token() <= last {
							t.Errorf("token %d after %d", lease.Token(), last)
						}
						last = lease.Token()
						return nil
					})
					if err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	all.Wait()
	if counter != lockers*goroutines*rounds {
		t.Errorf("counter = %d, want %d", counter, lockers*goroutines*rounds)
	}
}

// Many that use a name first at the same time make one file, and all of them get the lock.
func TestFirstUseRace(t *testing.T) {
	const contenders = 16
	dir := t.TempDir()
	tokens := make(chan locker.Token, contenders)
	var all sync.WaitGroup
	for range contenders {
		l := open(t, dir)
		all.Go(func() { tokens <- acquireRelease(t, l, "x") })
	}
	all.Wait()
	close(tokens)
	seen := map[locker.Token]bool{}
	for token := range tokens {
		seen[token] = true
	}
	if len(seen) != contenders {
		t.Errorf("%d different tokens of %d", len(seen), contenders)
	}
	if files, err := os.ReadDir(dir); len(files) != 1 || err != nil {
		t.Errorf("the directory has %v, %v, want one file", files, err)
	}
}

// The copy of the descriptor is of the lock itself: closing it changes nothing, and there is none
// after the lease.
func TestHandle(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir)
	lease := acquire(t, l, "x")
	h, ok := locker.As[filebackend.Handle](lease)
	if !ok {
		t.Fatal("the lease has no Handle")
	}
	f, err := h.File()
	if err != nil {
		t.Fatal(err)
	}
	content, err := io.ReadAll(io.NewSectionReader(f, 0, 2*filebackend.SlotSize))
	if err != nil || !strings.Contains(string(content), "token=000"+lease.Token().String()) {
		t.Errorf("the descriptor's file holds %q, %v, want the token %d", content, err, lease.Token())
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	if _, err := locker.TryAcquire(t.Context(), open(t, dir), "x"); !errors.Is(err, locker.ErrHeld) {
		t.Errorf("TryAcquire after a copy was closed = %v, want ErrHeld", err)
	}
	release(t, lease)
	if f, err := h.File(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("File after Release = %v, %v, want ErrClosed", f, err)
	}
}

// A lock file that was opened to a group stays open to it: the release of a lease whose descriptor
// was handed out sets the mode that the file has.
func TestModeIsKept(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir)
	acquireRelease(t, l, "x")
	path := filepath.Join(dir, filebackend.FileName("x", 0))
	for _, mode := range []os.FileMode{0o600, 0o660} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		lease := acquire(t, l, "x")
		h, _ := locker.As[filebackend.Handle](lease)
		f, err := h.File()
		if err != nil {
			t.Fatal(err)
		}
		release(t, lease)
		if err := f.Close(); err != nil {
			t.Error(err)
		}
		if info, err := os.Stat(path); err != nil || info.Mode() != mode {
			t.Errorf("mode after the release = %v, %v, want %v", info.Mode(), err, mode)
		}
	}
}

func TestWaitTimesOut(t *testing.T) {
	dir := t.TempDir()
	acquire(t, open(t, dir), "x")
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := open(t, dir).Acquire(ctx, "x")
	if !errors.Is(err, locker.ErrHeld) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Acquire = %v, want ErrHeld and DeadlineExceeded", err)
	}
}
