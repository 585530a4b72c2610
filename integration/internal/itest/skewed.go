//go:build unix

package itest

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fencedlock/locker/conformance"
	"github.com/fencedlock/locker/conformance/process"
)

// skewed is the program of the holders whose clock is wrong. It is built when it is first needed.
var skewed struct {
	once sync.Once
	dir  string
	err  error
}

// StartSkewed is a hook of the suite: a process whose Locker is opened by its URL, and whose clock
// is wrong.
func StartSkewed(url string) func(conformance.T, time.Duration) process.Process {
	return func(t conformance.T, ahead time.Duration) process.Process {
		t.Helper()
		skewed.once.Do(buildSkewed)
		if skewed.err != nil {
			t.Fatalf("the program with its own clock: %v", skewed.err)
		}
		cmd := exec.Command(filepath.Join(skewed.dir, "holder"))
		cmd.Env = append(os.Environ(), "LOCKER_URL="+url, process.ClockAhead(ahead))
		return process.Start(t, cmd)
	}
}

// buildSkewed lets one package build at a time. The first fills the build cache, which takes two
// processors for a minute or more, and the others find everything there.
func buildSkewed() {
	if skewed.dir, skewed.err = os.MkdirTemp("", "locker-holder-"); skewed.err != nil {
		return
	}
	lock, err := os.OpenFile(filepath.Join(os.TempDir(), "locker-integration-holder"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		skewed.err = err
		return
	}
	defer lock.Close() // and so unlocks it
	if skewed.err = unix.Flock(int(lock.Fd()), unix.LOCK_EX); skewed.err != nil {
		return
	}
	skewed.err = process.BuildSkewed(context.Background(), "github.com/fencedlock/locker/integration/cmd/holder",
		filepath.Join(skewed.dir, "holder"))
}

// removeSkewed removes the program at the end of the tests.
func removeSkewed() {
	if skewed.dir != "" {
		_ = os.RemoveAll(skewed.dir) // in the system's directory for temporary files
	}
}
