//go:build linux || darwin || freebsd || openbsd || dragonfly

package filebackend_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/filebackend"
)

// The refusal names the process that holds the lock, where it is known, and no other one.
func TestBreakOfAFileNamesTheProcess(t *testing.T) {
	l, err := filebackend.New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	lease, err := l.Acquire(t.Context(), "a/b")
	if err != nil {
		t.Fatal(err)
	}
	pid := fmt.Sprint("kill ", os.Getpid())
	for _, token := range []locker.Token{lease.Token(), lease.Token() + 1} {
		_, err := locker.Break(t.Context(), l, "a/b", token, locker.Breach{AtOnce: true})
		if !errors.Is(err, locker.ErrNoBreaker) || !strings.Contains(err.Error(), "ends with its process") {
			t.Errorf("Break = %v, want ErrNoBreaker, and what helps", err)
		}
		known := token == lease.Token() && l.Guarantees().Inspection != locker.InspectionNone
		if strings.HasSuffix(err.Error(), pid) != known {
			t.Errorf("Break with token %v of %v = %v", token, lease.Token(), err)
		}
	}
	if err := lease.Err(); err != nil {
		t.Errorf("Err = %v, want nil: the lease is held", err)
	}
}

func TestBreakOfASlotNamesTheProcess(t *testing.T) {
	l, err := filebackend.New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if l.Guarantees().Inspection == locker.InspectionNone {
		t.Skip("nothing tells who holds a lock here")
	}
	lease, err := locker.TryAcquirePermit(t.Context(), l, "a/b", 3)
	if err != nil {
		t.Fatal(err)
	}
	slot, pid := locker.Slot(lease), fmt.Sprint("kill ", os.Getpid())
	for _, of := range []int{slot, slot%3 + 1, 0} {
		_, err := locker.Break(t.Context(), l, "a/b", lease.Token(), locker.Breach{Slot: of})
		if !errors.Is(err, locker.ErrNoBreaker) || strings.HasSuffix(err.Error(), pid) != (of == slot) {
			t.Errorf("Break of slot %d = %v, want the process only of slot %d", of, err, slot)
		}
	}
}

// The kernel names the process that took the lock, also when that has ended and a child keeps the file.
// To kill its id would help nobody, and might hit another process later.
func TestBreakOfAFileThatAChildKeeps(t *testing.T) {
	dir := t.TempDir()
	l, err := filebackend.New(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if l.Guarantees().Inspection == locker.InspectionNone {
		t.Skip("nothing tells who holds a lock here")
	}
	parent := start(t, "inherit", dir, "x")
	parent.expect(t, "blocks")
	s, err := locker.Inspect(t.Context(), l, "x", locker.Look{})
	if err != nil || s.Holder == nil {
		t.Fatalf("Inspect = %+v, %v, want a holder", s, err)
	}
	parent.kill(t)
	if _, err := parent.Process.Wait(); err != nil {
		t.Fatal(err)
	}
	_, err = locker.Break(t.Context(), l, "x", s.Holder.Token, locker.Breach{})
	if !errors.Is(err, locker.ErrNoBreaker) || strings.Contains(err.Error(), "kill") || !strings.Contains(err.Error(), "has ended") {
		t.Errorf("Break = %v, want ErrNoBreaker, and that a child keeps the lock", err)
	}
}
