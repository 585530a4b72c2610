package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// asCron is an environment variable that makes the test binary run the program itself.
const asCron = "CRON_TEST_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(asCron) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

func Example() {
	main()
	// Output:
	// page 1
	// page 2
	// page 3
}

// Several starts, of which each comes a little later, do the job once. On a machine that stalls for longer than
// minHold a start may come too late, but not three times.
func TestOnce(t *testing.T) {
	var done [3]int
	for try := range done {
		if done[try] = startThree(t); done[try] == 1 {
			return
		}
	}
	t.Errorf("the job was done %v times", done)
}

// startThree returns how often three starts have done the job.
func startThree(t *testing.T) (done int) {
	t.Helper()
	var starts []*exec.Cmd
	var outputs []*strings.Builder
	lockURL := "file://" + t.TempDir()
	for range 3 {
		cmd, out := exec.Command(os.Args[0]), new(strings.Builder)
		cmd.Env = append(os.Environ(), asCron+"=1", "LOCKER_URL="+lockURL)
		cmd.Stdout, cmd.Stderr = out, out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		starts, outputs = append(starts, cmd), append(outputs, out)
		time.Sleep(50 * time.Millisecond) // the difference of their clocks
	}
	for i, cmd := range starts {
		err := cmd.Wait()
		done += strings.Count(outputs[i].String(), "page 3")
		if err != nil {
			t.Errorf("start %d: %v, %s", i, err, outputs[i])
		}
	}
	return done
}

// All backends are known, and cron learns from the exit code that the job wasn't done.
func TestFailure(t *testing.T) {
	for _, url := range []string{"redis://127.0.0.1:1", "etcd://127.0.0.1:1"} {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), asCron+"=1", "LOCKER_URL="+url)
		out, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != 1 || !strings.Contains(string(out), "refused") {
			t.Errorf("%s: %v, %s, want code 1 and a refused connection", url, err, out)
		}
	}
}

// The directory may have any name, and is removed afterwards, also if the job is stopped.
func TestDirectory(t *testing.T) {
	parent := filepath.Join(t.TempDir(), "50%25 #1")
	if err := os.Mkdir(parent, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", parent)
	t.Setenv("LOCKER_URL", "")
	if err := job(t.Context()); err != nil {
		t.Errorf("job = %v", err)
	}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	if err := job(stopped); !errors.Is(err, context.Canceled) {
		t.Errorf("job that is stopped = %v, want %v", err, context.Canceled)
	}
	if left, err := os.ReadDir(parent); len(left) > 0 || err != nil {
		t.Errorf("remaining: %v, %v", left, err)
	}
}
