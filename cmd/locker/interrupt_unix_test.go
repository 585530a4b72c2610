//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package main

import (
	"encoding/json"
	"io/fs"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// lockFiles are the files in a home directory, where locks are that have no other place.
func lockFiles(t *testing.T, home string) (files []string) {
	t.Helper()
	err := filepath.WalkDir(home, func(path string, d fs.DirEntry, err error) error {
		if err == nil && (!d.IsDir() || strings.Contains(d.Name(), "conformance")) {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// see reads lines up to one that has text in it.
func see(t *testing.T, ch <-chan string, text string) {
	t.Helper()
	for line := ""; !strings.Contains(line, text); {
		if line = next(t, ch); line == "<end>" {
			t.Fatalf("the output has ended before %q", text)
		}
	}
}

func TestConformanceLeavesNoFiles(t *testing.T) {
	home := locksDir(t)
	code, stdout, stderr := runToEnd(t, environ(t, "HOME="+home), "conformance", "--run", "^(A1|D38|H63)-")
	if code != 0 || !strings.Contains(stdout, "3 passed") {
		t.Fatalf("code %d, stderr %q, stdout %s", code, stderr, stdout)
	}
	if files := lockFiles(t, home); len(files) > 0 {
		t.Errorf("remaining: %q", files)
	}
}

func TestInterruptedConformance(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		home := locksDir(t)
		p := startLocker(t, environ(t, "HOME="+home), "conformance")
		see(t, p.out, "passed ")
		p.signal(t, sig)
		summed := false
		for line := next(t, p.out); line != "<end>"; line = next(t, p.out) {
			if strings.HasPrefix(line, "failed") {
				t.Errorf("%v: the interrupted case counts: %s", sig, line)
			}
			summed = summed || strings.Contains(line, " 0 failed, ")
		}
		if !summed {
			t.Errorf("%v: there is no sum", sig)
		}
		want(t, p.errOut, "locker: interrupted")
		wantEnd(t, p.errOut)
		p.wantCode(t, 128+int(sig))
		if files := lockFiles(t, home); len(files) > 0 {
			t.Errorf("%v: remaining: %q", sig, files)
		}
	}
}

func TestInterruptedConformanceJSON(t *testing.T) {
	home := locksDir(t)
	p := startLocker(t, environ(t, "HOME="+home), "conformance", "--format", "json")
	for started := time.Now(); !strings.Contains(strings.Join(lockFiles(t, home), "\n"), ".lock"); { // no case has begun
		if time.Sleep(time.Millisecond); time.Since(started) > patience {
			t.Fatal("there is no lock file")
		}
	}
	p.signal(t, syscall.SIGINT)
	var text strings.Builder
	for line := next(t, p.out); line != "<end>"; line = next(t, p.out) {
		text.WriteString(line)
	}
	var results []struct{ Verdict string }
	if err := json.Unmarshal([]byte(text.String()), &results); err != nil {
		t.Errorf("%q: %v", text.String(), err)
	}
	for _, r := range results {
		if r.Verdict == "failed" {
			t.Errorf("the interrupted case counts: %s", text.String())
		}
	}
	want(t, p.errOut, "locker: interrupted")
	p.wantCode(t, 128+int(syscall.SIGINT))
}

func TestInterruptedDemo(t *testing.T) {
	p := startLocker(t, environ(t), "demo", "--ttl", "1h")
	see(t, p.out, "is stopped")
	p.signal(t, syscall.SIGINT)
	want(t, p.errOut, "locker: interrupted")
	wantEnd(t, p.errOut)
	p.wantCode(t, 128+int(syscall.SIGINT))
}
