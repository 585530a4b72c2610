//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/fencedlock/locker/cmd/locker/internal/bench"
)

// left are the files and folders in a directory.
func left(t *testing.T, dir string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestBench(t *testing.T) {
	dir := locksDir(t)
	env := environ(t, "LOCKER_URL=file://"+dir)
	small := []string{"bench", "--for", "100ms", "--leases", "20", "--goroutines", "4", "--contenders", "3"}
	code, stdout, stderr := runToEnd(t, env, small...)
	if code != 0 || stderr != "" {
		t.Errorf("code %d, stderr %q, want 0 and nothing", code, stderr)
	}
	for _, want := range []string{"locker bench on file, leases never end by time", "\nalone ", "\nwake            granted after its holder was killed ", "\ngood: "} {
		if !strings.Contains(stdout, want) {
			t.Errorf("stdout %q, want %q in it", stdout, want)
		}
	}
	code, stdout, stderr = runToEnd(t, env, append(small, "--format", "json")...)
	var r bench.Report
	if err := json.Unmarshal([]byte(stdout), &r); err != nil || code != 0 || stderr != "" || len(r.Results) != 7 || r.Leases != 20 {
		t.Errorf("code %d, stderr %q, report %s, %v, want one with 7 results", code, stderr, stdout, err)
	}
	if found := left(t, dir); len(found) > 0 {
		t.Errorf("left: %q", found)
	}
}

func TestInterruptedBench(t *testing.T) {
	dir := locksDir(t)
	p := startLocker(t, environ(t, "LOCKER_URL=file://"+dir), "bench", "--for", "1m", "--leases", "20")
	see(t, p.out, "open and close")
	p.signal(t, syscall.SIGINT)
	want(t, p.errOut, "locker: interrupted")
	wantEnd(t, p.errOut)
	p.wantCode(t, 128+2)
	if found := left(t, dir); len(found) > 0 {
		t.Errorf("left: %q", found)
	}
}

// The process that holds a lock for bench says why it can't.
func TestHolderOfBenchThatFails(t *testing.T) {
	t.Setenv(asLocker, "1")
	t.Setenv("GORACE", "atexit_sleep_ms=0")
	for url, words := range map[string]string{
		"file:///dev/null/locks": "exit status 117: locker: ",
		"mem://":                 "exit status 116: locker: ",
	} {
		p, err := holdElsewhere(url, 0)(t.Context(), "x")
		if err == nil {
			_ = p.End()
		}
		if err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%s: error %v, want %q in it", url, err, words)
		}
	}
}

func TestHolderOfBenchEnds(t *testing.T) {
	t.Setenv(asLocker, "1")
	t.Setenv("GORACE", "atexit_sleep_ms=0")
	dir := locksDir(t)
	for _, end := range []func(bench.Process) error{
		bench.Process.End,
		func(p bench.Process) error { return p.Kill() },
		func(p bench.Process) error { return p.Stop() },
	} {
		p, err := holdElsewhere("file://"+dir, 0)(t.Context(), "x")
		if err != nil {
			t.Fatal(err)
		}
		if err := end(p); err != nil {
			t.Errorf("end = %v, want nil", err)
		}
		_ = p.End() // it is repeated
		wantFree(t, environ(t, "LOCKER_URL=file://"+dir))
	}
	if _, err := os.Stat(dir); err != nil {
		t.Error(err)
	}
}
