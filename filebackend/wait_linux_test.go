package filebackend_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/filebackend"
)

// Waiters don't try without a notice, so a test that waits fails when a notice is missing. And no
// reader of notices ends by itself, so one that Close leaves running is found.
func init() {
	filebackend.SlowTries()
	filebackend.SetIdleTime(time.Hour)
}

// grant is the result of an acquisition in the background.
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
	case <-time.After(atOnce):
		t.Fatal("the waiter was not woken")
		return nil
	}
}

// eventually waits until ok, and fails the test when that takes too long.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(atOnce); !ok(); time.Sleep(time.Millisecond) {
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

// sleepers counts the acquisitions of this process that have tried and sleep until a notice.
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

// A child that still has the descriptor keeps the file open, so the release closes nothing.
func TestReleaseWakesWhileAChildHasTheDescriptor(t *testing.T) {
	dir := t.TempDir()
	lease := acquire(t, open(t, dir), "x")
	startWithLock(t, lease)
	got := waiter(t, t.Context(), open(t, dir))
	release(t, lease)
	await(t, got)
}

// The end of the last process that has the descriptor wakes the waiters.
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
		t.Error("granted next to the child")
	default:
	}
	if err := parent.stdin.Close(); err != nil {
		t.Fatal(err)
	}
	await(t, got)
}

// All of many waiters are served, although each release wakes all of them and one wins.
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

// Calls may be under way when the driver is closed. Close ends the reader of notices although they wait,
// and no call can start another one.
func TestCloseEndsTheReaderWhileSomebodyWaits(t *testing.T) {
	for what, leaves := range map[string]bool{"stays": false, "leaves meanwhile": true} {
		t.Run(what, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "x")
			if err := os.WriteFile(path, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			d, err := filebackend.NewDriver(filepath.Dir(path))
			if err != nil {
				t.Fatal(err)
			}
			before := readers()
			notices, stop := filebackend.Watch(d, path)
			if notices == nil {
				t.Fatal("nothing is watched")
			}
			eventually(t, "the reader reads", func() bool { return readers() == before+1 })
			if leaves {
				if err := os.Remove(path); err != nil { // else the end of the watch wakes the reader
					t.Fatal(err)
				}
				<-notices
				// So stop runs before the reader, which Close has woken.
				defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
				stopped := make(chan struct{})
				go func() { defer close(stopped); stop() }()
				defer func() { <-stopped }()
			}
			ctx, cancel := context.WithTimeout(t.Context(), atOnce)
			defer cancel()
			if err := d.Close(ctx); err != nil {
				t.Fatalf("Close = %v", err)
			}
			eventually(t, "the reader has ended", func() bool { return readers() == before })
			if notices, _ := filebackend.Watch(d, filepath.Dir(path)); notices != nil || readers() != before {
				t.Error("a watch began after Close")
			}
		})
	}
}

// A reader that doesn't end holds Close up no longer than its context lasts.
func TestCloseWaitsForTheReaderInItsContext(t *testing.T) {
	d, err := filebackend.NewDriver(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	ended := filebackend.StuckReader(d)
	defer ended()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := d.Close(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Close = %v, want the error of its context", err)
	}
}

// readers counts the goroutines of this process that read notices.
func readers() int {
	buf := make([]byte, 1<<20)
	return strings.Count(string(buf[:runtime.Stack(buf, true)]), "filebackend.(*watcher).read(")
}
