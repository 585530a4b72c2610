package process_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/fencedlock/locker/conformance/process"
)

// TestBuildSkewed: only the wall clock of the program is wrong, and it jumps when the program says so.
func TestBuildSkewed(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds the standard library")
	}
	program := filepath.Join(t.TempDir(), "clock")
	if err := process.BuildSkewed(t.Context(), "./testdata/clock", program); err != nil {
		t.Fatal(err)
	}
	for _, ahead := range []time.Duration{0, time.Hour, -time.Hour} {
		const jump = time.Minute
		cmd := exec.Command(program, process.ClockAhead(ahead+jump))
		cmd.Env = append(os.Environ(), process.ClockAhead(ahead))
		before := time.Now().Unix()
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		after := time.Now().Unix()
		var clock, took, jumped int64
		if _, err := fmt.Sscan(string(out), &clock, &took, &jumped); err != nil {
			t.Fatal(err)
		}
		if by := int64(ahead / time.Second); clock < before+by || clock > after+by {
			t.Errorf("ahead by %v, the clock is %d, want %d to %d", ahead, clock, before+by, after+by)
		}
		if by := int64((ahead + jump) / time.Second); jumped < before+by || jumped > after+by {
			t.Errorf("ahead by %v and then by %v more, the clock is %d, want %d to %d", ahead, jump, jumped, before+by, after+by)
		}
		if took < 50 || took > 10_000 {
			t.Errorf("ahead by %v, 50 ms took %d ms", ahead, took)
		}
	}
}

func TestBuildSkewedSaysWhatIsWrong(t *testing.T) {
	if err := process.BuildSkewed(t.Context(), "./testdata/none", filepath.Join(t.TempDir(), "x")); err == nil {
		t.Error("BuildSkewed of no package = nil, want an error")
	}
}
