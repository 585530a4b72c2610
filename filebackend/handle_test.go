//go:build linux || darwin || freebsd || openbsd || dragonfly

package filebackend_test

import (
	"errors"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/filebackend"
)

// The lock of a lease with a minimum hold is held after Release, for nobody: a child that was given it
// then would lose it without a notice.
func TestNoHandleWhileTheLockIsKept(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		l := open(t, dir)
		lease, err := l.Acquire(t.Context(), "x", locker.WithMinHold(time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		h, ok := locker.As[filebackend.Handle](lease)
		if !ok {
			t.Fatal("the lease has no Handle")
		}
		f, err := h.File()
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
		release(t, lease)
		if f, err := h.File(); !errors.Is(err, os.ErrClosed) {
			t.Errorf("File after Release = %v, %v, want ErrClosed", f, err)
		}
		if _, err := locker.TryAcquire(t.Context(), l, "x"); !errors.Is(err, locker.ErrHeld) {
			t.Errorf("TryAcquire = %v, want ErrHeld", err)
		}
	})
}

// A permit's lease has a Handle of its own.
func TestHandleOfPermit(t *testing.T) {
	l := open(t, t.TempDir())
	for range 2 {
		permit, err := locker.TryAcquirePermit(t.Context(), l, "x", 2)
		if err != nil {
			t.Fatal(err)
		}
		h, _ := locker.As[filebackend.Handle](permit)
		f, err := h.File()
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
}

// The Locker that the program has may be a decorator that changes tokens.
func TestHandleWithTokenBase(t *testing.T) {
	l, err := locker.Open(t.Context(), "file://"+t.TempDir()+"?holder=web&token_base=4000000000000000000")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	lease := acquire(t, l, "x")
	h, _ := locker.As[filebackend.Handle](lease)
	f, err := h.File()
	if err != nil {
		t.Fatalf("File of the lease with token %d: %v", lease.Token(), err)
	}
	_ = f.Close()
}

func TestLeaseOfTheLock(t *testing.T) {
	now := time.Now()
	held := locker.LeaseInfo{Name: "x", Slot: 1, Token: 7, State: locker.StateHeld}
	for what, c := range map[string]struct {
		change func(*locker.LeaseInfo)
		want   bool
	}{
		"held":                 {func(*locker.LeaseInfo) {}, true},
		"held for a time":      {func(i *locker.LeaseInfo) { i.Deadline = now.Add(1) }, true},
		"its deadline is over": {func(i *locker.LeaseInfo) { i.Deadline = now }, false},
		"kept":                 {func(i *locker.LeaseInfo) { i.State = locker.StateKept }, false},
		"being removed":        {func(i *locker.LeaseInfo) { i.State = locker.StateRemoving }, false},
		"of another name":      {func(i *locker.LeaseInfo) { i.Name = "y" }, false},
		"of another slot":      {func(i *locker.LeaseInfo) { i.Slot = 0 }, false},
		"of another lease's":   {func(i *locker.LeaseInfo) { i.Token = 8 }, false},
	} {
		info := held
		c.change(&info)
		if filebackend.IsOf("x", 1, 7, info, now) != c.want {
			t.Errorf("%s: %v", what, !c.want)
		}
	}
}
