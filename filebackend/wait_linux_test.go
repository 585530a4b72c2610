package filebackend_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/filebackend"
)

// Nobody looks by himself, so a test that waits fails when a notice is missing; and no reader of notices ends by
// itself, so one that Close leaves behind is found.
func init() {
	filebackend.SlowLooks()
	filebackend.SetLinger(time.Hour)
}

// grant is what an acquisition in the background came to.
type grant struct {
	lease locker.Lease
	err   error
}

func acquireBehind(ctx context.Context, l locker.Locker, name string) <-chan grant {
	got := make(chan grant, 1)
	go func() {
		lease, err := l.Acquire(ctx, name)
		got <- grant{lease, err}
	}()
	return got
}

func await(t testing.TB, got <-chan grant) locker.Lease {
	t.Helper()
	select {
	case g := <-got:
		if g.err != nil {
			t.Fatal(g.err)
		}
		return g.lease
	case <-time.After(patience):
		t.Fatal("the waiter was not woken")
		return nil
	}
}

// eventually waits until ok, and fails the test when that takes too long.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("not in time: " + what)
		}
	}
}

// watches counts what this process watches by inotify.
func watches(t testing.TB) int {
	t.Helper()
	infos, err := filepath.Glob("/proc/self/fdinfo/*")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, info := range infos {
		text, _ := os.ReadFile(info) // it may be closed by now
		n += strings.Count(string(text), "inotify wd:")
	}
	return n
}

// asleep is a goroutine that waits for a notice, in the words of a stack trace.
var asleep = regexp.MustCompile(`\[select[^\n]*\n[^\n]*filebackend\.\(\*lock\)\.wait\(`)

// sleepers counts the acquisitions of this process that have tried, are told of notices, and sleep.
func sleepers() int {
	buf := make([]byte, 1<<20)
	return len(asleep.FindAll(buf[:runtime.Stack(buf, true)], -1))
}

// waiter begins to wait and returns when it sleeps.
func waiter(t *testing.T, ctx context.Context, l locker.Locker) <-chan grant {
	t.Helper()
	before := sleepers()
	got := acquireBehind(ctx, l, "x")
	eventually(t, "the waiter sleeps", func() bool { return sleepers() > before })
	return got
}

func TestReleaseWakes(t *testing.T) {
	dir := t.TempDir()
	lease := acquire(t, open(t, dir), "x")
	got := waiter(t, t.Context(), open(t, dir))
	release(t, lease)
	await(t, got)
}

func TestOtherProcessWakes(t *testing.T) {
	for what, end := range map[string]func(h *helper) error{
		"release": func(h *helper) error { return h.stdin.Close() },
		"death":   func(h *helper) error { return h.Process.Kill() },
	} {
		t.Run(what, func(t *testing.T) {
			dir := t.TempDir()
			h := start(t, "hold", dir, "x")
			h.expect(t, "holds")
			got := waiter(t, t.Context(), open(t, dir))
			if err := end(h); err != nil {
				t.Fatal(err)
			}
			await(t, got)
		})
	}
}

// A child that still has the descriptor keeps the file open, so its end tells nobody.
func TestReleaseWakesBesideChild(t *testing.T) {
	dir := t.TempDir()
	lease := acquire(t, open(t, dir), "x")
	startWithLock(t, lease)
	got := waiter(t, t.Context(), open(t, dir))
	release(t, lease)
	await(t, got)
}

// The last process that has the descriptor wakes waiters by its end.
func TestChildEndWakes(t *testing.T) {
	dir := t.TempDir()
	parent := start(t, "inherit", dir, "x")
	parent.expect(t, "blocks")
	got := waiter(t, t.Context(), open(t, dir))
	parent.kill(t)
	if _, err := parent.Process.Wait(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-got:
		t.Error("granted beside the child")
	default:
	}
	if err := parent.stdin.Close(); err != nil {
		t.Fatal(err)
	}
	await(t, got)
}

// All of many waiters are served, though each end wakes all of them and one wins.
func TestManyWaiters(t *testing.T) {
	dir := t.TempDir()
	lease := acquire(t, open(t, dir), "x")
	var all sync.WaitGroup
	for range 20 {
		got := waiter(t, t.Context(), open(t, dir))
		all.Go(func() { release(t, await(t, got)) })
	}
	release(t, lease)
	all.Wait()
}

// A waiter whose file is removed or replaced goes over to what stands at the path.
func TestReplacedWhileWaiting(t *testing.T) {
	for what, replace := range replacements {
		t.Run(what, func(t *testing.T) {
			dir := t.TempDir()
			acquire(t, open(t, dir), "x")
			got := waiter(t, t.Context(), open(t, dir))
			if err := replace(filepath.Join(dir, filebackend.FileName("x"))); err != nil {
				t.Fatal(err)
			}
			await(t, got)
		})
	}
}

// A waiter's tries close nothing, or each would wake all other waiters to another try.
func TestTriesWakeNobody(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, filebackend.FileName("x"))
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
	case <-time.After(patience):
		t.Fatal("the waiters were not woken")
	}
}

// The kernel drops notices when too many are unread, and says so. They may have been for anybody.
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
		case <-time.After(patience):
			t.Errorf("waiter %d was not woken", i)
		}
	}
}

// A lock's descriptor closes in programs that are started, follows no link, and has its writes on the disk when they
// return.
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

// Two acquisitions of one driver may wait for one name, as when one is left behind by its caller. They share a watch;
// the end of one must not end it for the other.
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

// startWait makes an acquisition that waits.
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

// When the system has no inotify instance left, waiters look by themselves.
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

// A waiter sleeps: it neither computes nor wakes up while nothing happens.
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

// waitMeasured waits for a lock, in vain and then again at once, and tells what the second wait cost.
func waitMeasured(ctx context.Context, args []string) error {
	filebackend.SetLinger(50 * time.Millisecond)
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

// descriptors is what this process has open.
func descriptors(t testing.TB) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// Waits that are cancelled, tries that fail and leases that are released leave no descriptor, goroutine or watch.
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

// The reader of notices ends when nobody has waited for a while, though the Locker stays open.
func TestReaderEnds(t *testing.T) {
	before := filebackend.SetLinger(10 * time.Millisecond)
	t.Cleanup(func() { filebackend.SetLinger(before) })
	dir := t.TempDir()
	holder, l := open(t, dir), open(t, dir)
	lease := acquire(t, holder, "x")
	goroutines, open0 := runtime.NumGoroutine(), descriptors(t)
	for range 2 { // and begins anew
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

func TestCloseWakesWaiters(t *testing.T) {
	dir := t.TempDir()
	acquire(t, open(t, dir), "x")
	l := open(t, dir)
	got := waiter(t, t.Context(), l)
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if g := <-got; !errors.Is(g.err, locker.ErrClosed) {
		t.Errorf("Acquire = %v, want ErrClosed", g.err)
	}
}
