package process

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// clockAhead is the environment variable that a program of [BuildSkewed] reads: seconds.
const clockAhead = "LOCKER_CLOCK_AHEAD"

// ClockAhead is what a program of [BuildSkewed] needs in its environment, for [exec.Cmd]: its wall
// clock is ahead of the machine's by d, in whole seconds, or behind it if d is negative. If the
// variable is set when the program starts, the program reads it every millisecond: then [os.Setenv]
// makes its clock jump a moment later.
func ClockAhead(d time.Duration) string { return fmt.Sprintf("%s=%d", clockAhead, d/time.Second) }

// skewSource is added to the package time of such a program. The scheduler reads the clock, too, where
// nothing may wait for a lock. So the environment is read by a goroutine.
const skewSource = `package time

import (
	"sync/atomic"
	"syscall"
)

var clockAhead atomic.Int64

func init() {
	if readClockAhead() {
		go func() {
			for {
				Sleep(Millisecond)
				readClockAhead()
			}
		}()
	}
}

func readClockAhead() bool {
	text, found := syscall.Getenv("` + clockAhead + `")
	n, _ := atoi(text)
	clockAhead.Store(int64(n))
	return found
}
`

// readsClock is the line of time.Now that reads the clock.
var readsClock = regexp.MustCompile(`(?m)^func Now\(\) Time \{\n\tsec, nsec, mono := \w+\(\)\n`)

// BuildSkewed builds the main package pkg, a program that calls [Serve], and writes it to the file
// out. In that program [time.Now] is ahead of the machine's wall clock by what [ClockAhead] says.
// Timers and durations are right, as on a machine whose clock was set wrong.
//
// It runs the go command, which builds the standard library with a changed package time. That
// takes a minute or two, and a second when the build cache has it.
func BuildSkewed(ctx context.Context, pkg, out string) error {
	goroot, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return fmt.Errorf("go env GOROOT: %w", err)
	}
	dir, err := os.MkdirTemp("", "clock-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	overlay, err := overlayTime(dir, strings.TrimSpace(string(goroot)))
	if err != nil {
		return err
	}
	text, err := exec.CommandContext(ctx, "go", "build", "-overlay", overlay, "-o", out, pkg).CombinedOutput()
	if err != nil {
		return fmt.Errorf("go build %s: %w\n%s", pkg, err, text)
	}
	return nil
}

// overlayTime writes the changed files of package time to dir, and returns the file that tells the
// go command of them.
func overlayTime(dir, goroot string) (overlay string, err error) {
	source := filepath.Join(goroot, "src", "time")
	original, err := os.ReadFile(filepath.Join(source, "time.go"))
	if err != nil {
		return "", err
	}
	at := readsClock.FindIndex(original)
	if at == nil {
		return "", errors.New("the function time.Now of this version of Go is not known")
	}
	changed := bytes.Join([][]byte{original[:at[1]], original[at[1]:]}, []byte("\tsec += clockAhead.Load()\n"))
	files := []struct {
		name string
		text []byte
	}{{"time.go", changed}, {"clock_ahead.go", []byte(skewSource)}}
	replace := make(map[string]string)
	for _, f := range files {
		own := filepath.Join(dir, f.name)
		if err := os.WriteFile(own, f.text, 0o600); err != nil {
			return "", err
		}
		replace[filepath.Join(source, f.name)] = own
	}
	list, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	overlay = filepath.Join(dir, "overlay.json")
	return overlay, os.WriteFile(overlay, list, 0o600)
}
