//go:build unix

package conformance_test

import (
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance"
	"github.com/fencedlock/locker/conformance/process"
	"github.com/fencedlock/locker/filebackend"
)

// dirVariable is set in a holder's process, which runs this test binary: the directory of its
// locks.
const dirVariable = "LOCKER_CONFORMANCE_DIR"

func TestMain(m *testing.M) {
	dir, ok := os.LookupEnv(dirVariable)
	if !ok {
		os.Exit(m.Run())
	}
	l, err := filebackend.New(dir)
	if err == nil {
		err = process.Serve(l, os.Stdin, os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// TestFile runs the suite on files, with holders in real processes.
func TestFile(t *testing.T) {
	t.Parallel()
	conformance.Run(t, fileHarness(t.TempDir()))
}

// TestExploreFile searches on files.
func TestExploreFile(t *testing.T) {
	t.Parallel()
	conformance.Explore(t, fileHarness(t.TempDir()), searchTime(t))
}

func fileHarness(dir string) conformance.Harness {
	open := func(t conformance.T) locker.Locker {
		l, err := filebackend.New(dir)
		if err != nil {
			t.Fatalf("%v", err)
		}
		return l
	}
	const noServer = "there is no server; the kernel has the locks"
	return conformance.Harness{Open: open, Settle: 20 * time.Millisecond, Strict: true, Hooks: conformance.Hooks{
		Process: func(t conformance.T) process.Process {
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), dirVariable+"="+dir)
			return process.Start(t, cmd)
		},
		Prefixed: func(t conformance.T, prefix string) locker.Locker { return prefixed(t, open(t), prefix) },
		URL:      "file://" + dir,
		BadURLs: map[string]string{
			"host":              "file://sesame/var/locks",
			"password":          "file://user:sesame@/var/locks",
			"relative path":     "file:locks?tls=sesame",
			"unknown parameter": "file:///var/locks?tls=sesame",
			"writable by all":   "file:///tmp",
			"not a directory":   "file:///dev/null",
		},
		Secrets: []string{"sesame"},
		Absent: map[conformance.Hook]string{
			conformance.HookLinked:   noServer,
			conformance.HookSkewed:   "all holders are on one machine, with one clock",
			conformance.HookPause:    noServer,
			conformance.HookDown:     noServer,
			conformance.HookRestart:  noServer,
			conformance.HookWipe:     noServer,
			conformance.HookRemove:   noServer,
			conformance.HookRequests: noServer,
		},
	}}
}
