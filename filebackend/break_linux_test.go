package filebackend_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/filebackend"
)

// The kernel goes on naming the process that took the lock when that lives and has closed the file, and also when
// another process has got its id. To kill that one would help nobody.
func TestBreakOfAFileThatItsProcessHasClosed(t *testing.T) {
	dir := t.TempDir()
	l := inspectable(t, dir)
	f, err := os.Create(dir + "/x.lock")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	const token = 7
	if _, err := f.Write(filebackend.Encode(token, "0123456789abcdef0123456789abcdef", os.Getpid())); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	broken := func(want, not string) {
		t.Helper()
		_, err := locker.Break(t.Context(), l, "x", token, locker.Breach{})
		if !errors.Is(err, locker.ErrNoBreaker) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), not) {
			t.Errorf("Break = %v, want ErrNoBreaker with %q and without %q", err, want, not)
		}
	}
	broken(fmt.Sprint("kill ", os.Getpid()), "inherited")
	child := exec.Command("sleep", "600")
	child.ExtraFiles = []*os.File{f}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = child.Process.Kill()
		_ = child.Wait()
	}()
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	broken("inherited", "kill")
}
