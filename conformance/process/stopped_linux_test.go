package process_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/fencedlock/locker/conformance/process"
)

// When Stop has returned, no thread of the process runs. The process has many that do.
func TestStopWaits(t *testing.T) {
	const busy = "LOCKER_TEST_BUSY"
	if n, _ := strconv.Atoi(os.Getenv(busy)); n > 0 {
		for range n - 1 {
			go spin()
		}
		spin()
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestStopWaits$")
	cmd.Env = append(os.Environ(), busy+"=4")
	p := process.Start(t, cmd)
	for range 100 {
		p.Stop()
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", cmd.Process.Pid))
		if err != nil || len(threads) == 0 {
			t.Fatalf("no threads: %v", err)
		}
		for _, thread := range threads {
			stat, err := os.ReadFile(thread)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Contains(stat, []byte(") T ")) {
				t.Fatalf("a thread is not stopped: %q", stat)
			}
		}
		p.Continue()
	}
}

func spin() {
	for { //nolint:revive,staticcheck // it must be busy
	}
}
