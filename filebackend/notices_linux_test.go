package filebackend_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/filebackend"
)

// What the kernel notifies waiters of, and what they do without notices.

// A waiter whose file is removed or replaced goes on with the file at the path.
func TestReplacedWhileWaiting(t *testing.T) {
	for what, replace := range replacements {
		t.Run(what, func(t *testing.T) {
			dir := t.TempDir()
			acquire(t, open(t, dir), "x")
			got := waiter(t, t.Context(), open(t, dir))
			if err := replace(filepath.Join(dir, filebackend.FileName("x", 0))); err != nil {
				t.Fatal(err)
			}
			await(t, got)
		})
	}
}

// A waiter's tries close no file, because each close would make all other waiters try.
func TestTriesWakeNobody(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, filebackend.FileName("x", 0))
	lease := acquire(t, open(t, dir), "x")
	first, second := waiter(t, t.Context(), open(t, dir)), waiter(t, t.Context(), open(t, dir))
	fd, err := syscall.InotifyInit1(syscall.IN_CLOEXEC | syscall.IN_NONBLOCK)
	if err != nil {
		t.Fatal(err)
	}
	closes := os.NewFile(uintptr(fd), "inotify")
	t.Cleanup(func() { _ = closes.Close() })
	if _, err := syscall.InotifyAddWatch(fd, path, syscall.IN_CLOSE); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o600); err != nil { // wakes both
		t.Fatal(err)
	}
	if err := closes.SetReadDeadline(time.Now().Add(50 * time.Millisecond)); err != nil { // a few tries long
		t.Fatal(err)
	}
	if _, err := closes.Read(make([]byte, 64)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("waiting for a close of the file: %v, want none", err)
	}
	release(t, lease)
	select {
	case g := <-first:
		release(t, g.lease)
		await(t, second)
	case g := <-second:
		release(t, g.lease)
		await(t, first)
	case <-time.After(atOnce):
		t.Fatal("the waiters were not woken")
	}
}

// The kernel drops notices when too many are unread, and says so. They may have been for any
// waiter.
func TestOverflowWakesAll(t *testing.T) {
	dir := t.TempDir()
	d, err := filebackend.NewDriver(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close(context.Background()) })
	var all []<-chan struct{}
	for _, name := range []string{"a", "b"} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		notices, stop := filebackend.Watch(d, path)
		t.Cleanup(stop)
		all = append(all, notices)
	}
	filebackend.Overflow(d)
	for i, notices := range all {
		select {
		case <-notices:
		case <-time.After(atOnce):
			t.Errorf("waiter %d was not woken", i)
		}
	}
}

// Two acquisitions of one driver may wait for one name, for example when the caller of one has
// gone. They share a watch. The end of one must not end the watch for the other.
func TestSharedWatch(t *testing.T) {
	dir := t.TempDir()
	lease := acquire(t, open(t, dir), "x")
	d, err := filebackend.NewDriver(dir)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	watched, slept := watches(t), sleepers()
	first, stays := startWait(t, ctx, d), startWait(t, t.Context(), d)
	eventually(t, "both sleep", func() bool { return sleepers() == slept+2 })
	if n := watches(t) - watched; n != 1 {
		t.Errorf("%d watches for one file, want 1", n)
	}
	cancel()
	if err := <-first.err; !errors.Is(err, context.Canceled) {
		t.Errorf("Acquire of the one that left = %v", err)
	}
	release(t, lease)
	if err := <-stays.err; err != nil {
		t.Errorf("Acquire of the one that stayed = %v", err)
	}
	if err := errors.Join(first.lock.Release(t.Context()), stays.lock.Release(t.Context()), d.Close(t.Context())); err != nil {
		t.Error(err)
	}
}

type driverWait struct {
	lock driver.Lock
	err  chan error
}

// startWait starts an acquisition that waits.
func startWait(t *testing.T, ctx context.Context, d driver.Driver) driverWait {
	t.Helper()
	l, err := d.Lock(locker.Request{Name: "x"}, func(error) {})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Acquire(ctx); !errors.Is(err, locker.ErrHeld) {
		t.Fatalf("Acquire = %v, want ErrHeld", err)
	}
	w := driverWait{l, make(chan error, 1)}
	go func() {
		_, err := l.Acquire(ctx)
		w.err <- err
	}()
	return w
}

// When the system has no inotify instance left, waiters poll.
func TestWithoutNotices(t *testing.T) {
	dir := t.TempDir()
	lease := acquire(t, open(t, dir), "x")
	h := start(t, "starve", dir, "x")
	h.expect(t, "polls")
	release(t, lease)
	if token := h.expect(t, "holds"); token <= int64(lease.Token()) {
		t.Errorf("token %d after %d", token, lease.Token())
	}
}

func init() { helpers["starve"] = starve }

// starve waits for a lock in a process that can't open anything.
func starve(ctx context.Context, args []string) error {
	d, err := filebackend.NewDriver(args[0])
	if err != nil {
		return err
	}
	l, err := d.Lock(locker.Request{Name: args[1]}, func(error) {})
	if err != nil {
		return err
	}
	if _, err := l.Acquire(ctx); !errors.Is(err, locker.ErrHeld) {
		return errors.New("the lock is not held")
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 3, Max: 3}); err != nil {
		return err
	}
	if _, err := syscall.InotifyInit1(0); !errors.Is(err, syscall.EMFILE) {
		return errors.New("there is an inotify instance left")
	}
	say("polls", 0)
	grant, err := l.Acquire(ctx)
	if err != nil {
		return err
	}
	say("holds", grant.Token)
	return nil
}
