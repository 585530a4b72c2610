package filebackend_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/filebackend"
)

// What a lease and a waiter cost in descriptors and processor time, and that nothing is left of
// them.

// A lock's descriptor is closed in programs that are started, follows no link, and has its writes
// on the disk when they return.
func TestDescriptorFlags(t *testing.T) {
	lease := acquire(t, open(t, t.TempDir()), "x")
	h, _ := locker.As[filebackend.Handle](lease)
	f, err := h.File()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	fds, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, fd := range fds {
		if target, _ := os.Readlink(fd); target != f.Name() {
			continue
		}
		seen++
		info, err := os.ReadFile(strings.Replace(fd, "/fd/", "/fdinfo/", 1))
		if err != nil {
			t.Fatal(err)
		}
		_, text, _ := strings.Cut(string(info), "flags:")
		var flags int
		if _, err := fmt.Sscanf(text, "%o", &flags); err != nil {
			t.Fatal(err)
		}
		if want := syscall.O_CLOEXEC | syscall.O_NOFOLLOW | syscall.O_DSYNC; flags&want != want {
			t.Errorf("%s has the flags %#o, want %#o among them", fd, flags, want)
		}
	}
	if seen != 2 {
		t.Errorf("%d descriptors of the lock file, want its own and the copy", seen)
	}
}

// A waiter neither computes nor wakes up while nothing happens.
func TestWaitersDontSpin(t *testing.T) {
	dir := t.TempDir()
	lease := acquire(t, open(t, dir), "x")
	h := start(t, "wait", dir, "x")
	h.expect(t, "waits")
	const nap = time.Second
	time.Sleep(nap) // for the waiter to have time to spin
	release(t, lease)
	h.expect(t, "holds")
	busy, switches := time.Duration(h.expect(t, "busy")), h.expect(t, "switches")
	t.Logf("in %v: %v of processor time, %d voluntary context switches", nap, busy, switches)
	if busy > nap/20 || switches > 200 {
		t.Errorf("in %v: %v of processor time, %d voluntary context switches; it spins", nap, busy, switches)
	}
}

func init() { helpers["wait"] = waitMeasured }

func untilAsleep() {
	for sleepers() == 0 {
		time.Sleep(time.Millisecond)
	}
}

// waitMeasured waits for a held lock, waits again at once, and returns what the second wait cost.
func waitMeasured(ctx context.Context, args []string) error {
	filebackend.SetIdleTime(50 * time.Millisecond)
	l, err := filebackend.New(args[0])
	if err != nil {
		return err
	}
	inVain, cancel := context.WithCancel(ctx)
	first := acquireBehind(inVain, l, args[1])
	untilAsleep()
	cancel()
	<-first
	got := acquireBehind(ctx, l, args[1])
	untilAsleep()
	var before, after syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &before); err != nil {
		return err
	}
	say("waits", 0)
	g := <-got
	if g.err != nil {
		return g.err
	}
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &after); err != nil {
		return err
	}
	say("holds", g.lease.Token())
	say("busy", after.Utime.Nano()+after.Stime.Nano()-before.Utime.Nano()-before.Stime.Nano())
	say("switches", after.Nvcsw-before.Nvcsw)
	return l.Close()
}

// descriptors are the open files of this process.
func descriptors(t testing.TB) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// Waits that are cancelled, tries that fail and leases that are released leave no descriptor,
// goroutine or watch.
func TestNothingIsLeft(t *testing.T) {
	dir := t.TempDir()
	holder := open(t, dir)
	lease := acquire(t, holder, "x")
	goroutines, open0 := runtime.NumGoroutine(), descriptors(t)
	l, err := filebackend.New(dir)
	if err != nil {
		t.Fatal(err)
	}
	for range 50 {
		ctx, cancel := context.WithCancel(t.Context())
		got := acquireBehind(ctx, l, "x")
		if _, err := locker.TryAcquire(t.Context(), l, "x"); !errors.Is(err, locker.ErrHeld) {
			t.Errorf("TryAcquire = %v, want ErrHeld", err)
		}
		cancel()
		if g := <-got; !errors.Is(g.err, context.Canceled) {
			t.Errorf("cancelled Acquire = %v", g.err)
		}
		acquireRelease(t, l, "y")
	}
	eventually(t, "the waiters' descriptors are closed", func() bool { return descriptors(t) <= open0+1 && watches(t) == 0 })
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	eventually(t, "all descriptors are closed", func() bool { return descriptors(t) <= open0 })
	eventually(t, "all goroutines are gone", func() bool { return runtime.NumGoroutine() <= goroutines })
	if err := lease.Renew(t.Context()); err != nil {
		t.Errorf("the lease is not what it was: %v", err)
	}
}

// The reader of notices ends when nobody has waited for some time, even though the Locker stays
// open.
func TestReaderEnds(t *testing.T) {
	before := filebackend.SetIdleTime(10 * time.Millisecond)
	t.Cleanup(func() { filebackend.SetIdleTime(before) })
	dir := t.TempDir()
	holder, l := open(t, dir), open(t, dir)
	lease := acquire(t, holder, "x")
	goroutines, open0 := runtime.NumGoroutine(), descriptors(t)
	for range 2 { // and begins again
		got := waiter(t, t.Context(), l)
		release(t, lease)
		lease = await(t, got)
		release(t, lease)
		lease = acquire(t, holder, "x")
		eventually(t, "the reader has ended", func() bool {
			return runtime.NumGoroutine() <= goroutines && descriptors(t) <= open0
		})
	}
}
