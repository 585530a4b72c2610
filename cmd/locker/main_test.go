package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/filebackend"
)

// asLocker in the environment makes the test binary the program itself, race detector included, or
// one of the commands that the tests run under it.
const asLocker = "LOCKER_TEST_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(asLocker) == "" {
		// Under nohup(1) hang-ups are ignored, and would be by the processes of the tests. What
		// this process hears is ignored by none of its children.
		signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
		goleak.VerifyTestMain(m)
	}
	if len(os.Args) > 1 {
		if helper := helpers[os.Args[1]]; helper != nil {
			helper(os.Args[2:])
			os.Exit(0)
		}
	}
	main()
}

// helpers are the commands that tests run under locker, by their first argument.
var helpers = map[string]func(args []string){}

// self is the test binary, which is locker and the helpers.
func self(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// environ is the environment of a locker: no backend but what env says, and a home of its own.
func environ(t *testing.T, env ...string) []string {
	t.Helper()
	base := slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "LOCKER_") })
	// The race detector would have each process sleep for a second at its end.
	return append(append(base, asLocker+"=1", "GORACE=atexit_sleep_ms=0", "HOME="+locksDir(t)), env...)
}

// locksDir is a directory of this test's own in which locker run takes locks. The temporary
// directory is none where the tests run in a container: it is on layers.
func locksDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if runtime.GOOS != "linux" {
		return dir
	}
	if l, err := filebackend.New(dir); err == nil {
		defer l.Close()
		if l.Guarantees().Scope >= locker.ScopeMachine {
			return dir
		}
	}
	dir, err := os.MkdirTemp("/dev/shm", "locker-test-")
	if err != nil {
		t.Fatal("the temporary directory is that of a container, and there is no other: ", err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// runToEnd runs locker to its end.
func runToEnd(t *testing.T, env []string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), self(t), args...)
	cmd.Env = env
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), errOut.String()
}

func TestUsageErrors(t *testing.T) {
	for _, test := range []struct {
		args []string
		want string
	}{
		{nil, "a command is missing"},
		{[]string{"ron"}, "unknown command \"ron\" (did you mean run?); see locker --help\n"},
		{[]string{"brake", "x"}, "unknown command \"brake\" (did you mean break?); see locker --help\n"},
		{[]string{"b"}, "(did you mean bench or break?); see locker --help\n"},
		{[]string{"x"}, "unknown command \"x\"; see locker --help\n"},
		{[]string{""}, "unknown command; see locker --help\n"},
		{[]string{"host=h password=s3cr3t"}, "unknown command; see locker --help\n"},
		{[]string{"run"}, "one NAME, then --, then CMD"},
		{[]string{"run", "x"}, "one NAME, then --, then CMD"},
		{[]string{"run", "x", "true"}, "one NAME, then --, then CMD"},
		{[]string{"run", "x", "--"}, "one NAME, then --, then CMD"},
		{[]string{"run", "--", "true"}, "one NAME, then --, then CMD"},
		{[]string{"run", "x", "y", "--", "true"}, "one NAME, then --, then CMD"},
		{[]string{"run", "", "--", "true"}, "invalid lock name: empty"},
		{[]string{"run", "--fast", "x", "--", "true"}, "unknown flag: --fast; see locker run --help\n"},
		{[]string{"run", "--ttl", "-1s", "x", "--", "true"}, "TTL -1s: want a positive time"},
		{[]string{"run", "--max-hold", "0s", "x", "--", "true"}, "longest hold 0s: want a positive time"},
		{[]string{"run", "--wait", "0s", "x", "--", "true"}, "--wait must be positive"},
		{[]string{"run", "--wait", "10", "x", "--", "true"}, "--wait is invalid: want a time with its unit, such as 5s"},
		{[]string{"run", "--wait", "1s", "--no-wait", "x", "--", "true"}, "exclude each other"},
		{[]string{"run", "--at-least", "0s", "x", "--", "true"}, "invalid option: minimum hold 0s: want a positive time"},
		{[]string{"run", "--at-least", "2s", "--max-hold", "1s", "x", "--", "true"}, "invalid option: minimum hold 2s: want at most the longest hold, 1s"},
		{[]string{"run", "--no-wait", "--held-code", "256", "x", "--", "true"}, "--held-code must be from 0 to 255"},
		{[]string{"run", "--held-code", "0", "x", "--", "true"}, "--held-code needs --no-wait or --wait"},
		{[]string{"run", "--grace", "-1s", "x", "--", "true"}, "--grace must not be negative"},
		{[]string{"run", "--require", "luck", "x", "--", "true"}, `"luck" is unknown (known: efficiency, correctness, `},
		{[]string{"run", "--require", "scope-network", "x", "--", "true"}, "(without LOCKER_URL and --backend, locks are files of this machine)\n"},
		{[]string{"run", "--require", "order-fifo", "x", "--", "true"}, "order must be FIFO or better"},
		{[]string{"run", "--ttl", "10s", "x", "--", "true"}, "--ttl: a lock of file is not freed by time, but when its process ends"},
		{[]string{"run", "--backend", "", "x", "--", "true"}, "--backend is empty"},
		{[]string{"run", "--backend", "mem://", "x", "--", "true"}, "only one process sees locks of mem"},
		{[]string{"run", "--backend", "nosuch://", "x", "--", "true"}, `no backend for scheme "nosuch"`},
		{[]string{"run", "--backend", "file:///tmp/x?fast=1", "x", "--", "true"}, `unknown parameter "fast"`},
		{[]string{"hold"}, "hold wants one NAME"},
		{[]string{"hold", "x", "y"}, "hold wants one NAME"},
		{[]string{"hold", "x", "--", "true"}, "hold wants one NAME"},
		{[]string{"hold", ""}, "invalid lock name: empty"},
		{[]string{"hold", "--grace", "1s", "x"}, "unknown flag: --grace"},
		{[]string{"hold", "--wait", "1s", "--no-wait", "x"}, "exclude each other"},
		{[]string{"hold", "--ttl", "-1s", "x"}, "TTL -1s: want a positive time"},
		{[]string{"hold", "--backend", "mem://", "x"}, "only one process sees locks of mem"},
		{[]string{"hold", "redis://u:p@h"}, "NAME looks like a URL"},
		{[]string{"bench", "x"}, "bench has no arguments"},
		{[]string{"bench", "--format", "xml"}, `"xml" is unknown (known: text, json)`},
		{[]string{"bench", "--leases", "0"}, "--leases 0: want a number from 1 to 100000"},
		{[]string{"bench", "--for", "1h"}, "--for 1h0m0s: want a time from 100ms to 10m0s"},
		{[]string{"bench", "--ttl", "-1s"}, "TTL -1s: want a positive time"},
		{[]string{"bench", "--ttl", "10s"}, "a TTL"},
		{[]string{"bench", "--backend", "mem://"}, "only one process sees locks of mem"},
		{[]string{"matrix", "--format", "xml"}, `"xml" is unknown (known: text, markdown, json)`},
		{[]string{"matrix", "x"}, "matrix has no arguments"},
		{[]string{"ls", "a", "b"}, "ls wants one PREFIX"},
		{[]string{"ls", "redis://u:p@h"}, "PREFIX looks like a URL"},
		{[]string{"ls", "--format", "xml"}, `"xml" is unknown (known: text, json, ndjson)`},
		{[]string{"ls", "--sort", "age"}, `"age" is unknown (known: name, held, waiting)`},
		{[]string{"ls", "--held-longer", "-1s"}, "--held-longer must not be negative"},
		{[]string{"ls", "--waiters", "x"}, "--waiters is invalid: want a whole number"},
		{[]string{"ls", "--backend", "mem://"}, "only one process sees locks of mem"},
		{[]string{"show"}, "show wants one NAME"},
		{[]string{"show", "a", "b"}, "show wants one NAME"},
		{[]string{"show", "--waiters", "-1", "a"}, "--waiters must not be negative"},
		{[]string{"show", "--format", "ndjson", "a"}, `"ndjson" is unknown (known: text, json)`},
		{[]string{"run", "-x", "x", "--", "true"}, "unknown flag: -x; see locker run --help\n"},
		{[]string{"run", "x", "--wait"}, "--wait needs a value"},
		{[]string{"run", "redis://u:p@h", "--", "true"}, "NAME looks like a URL"},
		{[]string{"ls", "REDIS://h?password=p"}, "PREFIX looks like a URL"},
		{[]string{"ls", " 'redis://h?password=p'"}, "PREFIX looks like a URL"},
		{[]string{"show", "nosuch://u:p@h"}, "NAME looks like a URL"},
		{[]string{"run", "--backend", " \n", "x", "--", "true"}, "--backend is empty"},
		{[]string{"--bakend", "x"}, "unknown flag: --bakend; see locker --help\n"},
		{[]string{"help", "brake"}, "help: unknown command \"brake\" (did you mean break?); see locker --help\n"},
		{[]string{"help", "run", "nosuch"}, "help: unknown command \"nosuch\"; see locker run --help\n"},
		{[]string{"completion", "tcsh"}, "unknown shell (known: bash, fish, powershell, zsh)"},
		{[]string{"completion", "bash", "x"}, "no arguments"},
	} {
		t.Run(strings.Join(append([]string{"locker"}, test.args...), " "), func(t *testing.T) {
			code, stdout, stderr := runToEnd(t, environ(t), test.args...)
			if code != exitUsage || stdout != "" {
				t.Errorf("code %d, stdout %q, want code %d and nothing", code, stdout, exitUsage)
			}
			if !strings.HasPrefix(stderr, "locker: ") || strings.Count(stderr, "\n") != 1 || strings.Count(stderr, "locker: ") != 1 {
				t.Errorf("stderr = %q, want one line that begins with locker: once", stderr)
			}
			if !strings.Contains(stderr, test.want) {
				t.Errorf("stderr = %q, want %q in it", stderr, test.want)
			}
		})
	}
}

func TestEmptyLockerURLIsRefused(t *testing.T) {
	code, _, stderr := runToEnd(t, environ(t, "LOCKER_URL="), "run", "x", "--", "true")
	if code != exitUsage || !strings.Contains(stderr, "LOCKER_URL is empty") {
		t.Errorf("code %d, stderr %q, want code %d and a word on LOCKER_URL", code, stderr, exitUsage)
	}
}

func TestPasswordIsNeverShown(t *testing.T) {
	const secret = "s3cr3t"
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("0123456789abcdef"), 0o600); err != nil {
		t.Fatal(err)
	}
	var urls []string
	for _, url := range []string{
		"redis://user:%@host:6379/0", "redis://:%@host", "mem://user:%@", "file://user:%@/tmp/x", "file://%/tmp",
		"redis://user:%%zz@host", "redis://user:%[@host", "user:%@host", "redis:%@host", "file:///tmp/x?password=%", "://%",
		"nosuch://u:%@host:port/", "file:///tmp\x01/%",
	} {
		urls = append(urls, strings.Replace(url, "%", secret, 1))
	}
	check := func(t *testing.T, env []string, args ...string) {
		t.Helper()
		code, stdout, stderr := runToEnd(t, env, args...)
		if code == 0 || strings.Contains(stdout+stderr, secret) {
			t.Errorf("%q: code %d, output %q, want an error without %q", args, code, stdout+stderr, secret)
		}
	}
	for _, url := range urls {
		check(t, environ(t, "LOCKER_URL="+url), "run", "x", "--", "true")
		check(t, environ(t), "run", "--backend", url, "x", "--", "true")
	}
	url := urls[0]
	for _, url := range []string{url, "postgres://h/d?user=u&password=" + secret} {
		for _, args := range [][]string{
			{"run", "%", "--", "true"},
			{"run", "x", "--", "%"},
			{"run", "x", "--", "./%"},
			{"hold", "%"},
			{"show", "%"},
			{"ls", "%"},
			{"break", "--yes", "--token", "7", "--reason", "x", "%"},
			{"break", "--yes", "--token", "7", "--reason", "x", "--audit", "%", "x"},
			{"top", "%"},
			{"ui", "%"},
			{"ui", "--token-file", "%"},
			{"ui", "--cert", "%", "--key", "%"},
			{"ui", "--allow-break", "--token-file", token, "--audit", "%"},
			{"ui", "--listen", "%"},
			{"demo", "--svg", "%"},
		} {
			for i := range args {
				args[i] = strings.Replace(args[i], "%", url, 1)
			}
			check(t, environ(t, "LOCKER_URL=file://"+locksDir(t)), args...)
		}
	}
	check(t, environ(t), url)
	check(t, environ(t), "run", url, "x", "--", "true")
	check(t, environ(t), "ls", url)
	check(t, environ(t), "show", url)
	check(t, environ(t), "hold", url)
	check(t, environ(t), "run", "--bakend="+url, "x", "--", "true")
	check(t, environ(t), "run", "--wait", url, "x", "--", "true")
	check(t, environ(t, "LOCKER_URL="+url), "run", "x")
	for _, args := range [][]string{
		{"run", "--require", "%", "x", "--", "true"},
		{"run", "%", "--", "true"},
		{"run", "--ttl", "%", "x", "--", "true"},
		{"run", "--%", "x", "--", "true"},
		{"run", "-%", "x", "--", "true"},
		{"run", "--quiet=%", "x", "--", "true"},
		{"matrix", "--format", "%"},
		{"ls", "--sort", "%"},
		{"show", "%", "%"},
		{"hold", "%", "%"},
		{"hold", "--wait", "%", "x"},
		{"matrix", "%"},
		{"choose", "--work", "%"},
		{"choose", "--have", "redis,%"},
		{"choose", "--require", "%"},
		{"choose", "%"},
		{"version", "%"},
		{"demo", "%"},
		{"demo", "--ttl", "%"},
		{"conformance", "--run", "%("},
		{"conformance", "--run", "%"},
		{"conformance", "--format", "%"},
		{"bench", "--format", "%"},
		{"bench", "--for", "%"},
		{"bench", "%"},
		{"help", "%"},
		{"completion", "%"},
		{"completion", "bash", "%"},
		{"--%"},
	} {
		for i := range args {
			args[i] = strings.Replace(args[i], "%", url, 1)
		}
		check(t, environ(t), args...)
		check(t, environ(t), append([]string{args[0]}, append(args[1:], "--help=maybe")...)...)
	}
}

// Bad input is found before the service is asked, which may be away.
func TestBadInputNeedsNoService(t *testing.T) {
	for _, test := range []struct {
		url  string // what follows the address
		args []string
		says string
	}{
		{"", []string{"show", ""}, "invalid lock name: empty"},
		{"", []string{"show", "a\tb"}, "control character"},
		{"", []string{"ls", "a\tb"}, "control character"},
		{"", []string{"ls", "--waiters", "-1"}, "--waiters must not be negative"},
		{"", []string{"top", "a\tb"}, "control character"},
		{"", []string{"ui", strings.Repeat("a", locker.MaxName+1)}, "want at most"},
		{"?token_base=-5", []string{"ls"}, "token_base: -5: want from 0 to 2^62"},
	} {
		code, stdout, stderr := runToEnd(t, environ(t, "LOCKER_URL=redis://127.0.0.1:1"+test.url), test.args...)
		if code != exitUsage || stdout != "" || !strings.Contains(stderr, test.says) {
			t.Errorf("%q: code %d, stderr %q, want code %d and %q", test.args, code, stderr, exitUsage, test.says)
		}
	}
	code, _, stderr := runToEnd(t, environ(t, "LOCKER_URL=redis://127.0.0.1:1"), "ls", "")
	if code != exitService {
		t.Errorf("ls of all locks: code %d, stderr %q, want code %d: the service is away", code, stderr, exitService)
	}
}

// What a server says may come from anybody who answers on its port.
func TestTerminalIsNotControlledByOthers(t *testing.T) {
	var stderr strings.Builder
	say(&stderr, "ERR \x1b]0;title\x07\x1b[2J\r\nlocker: all is well\u202e\tñ 日本")
	const want = "locker: ERR \\x1b]0;title\\a\\x1b[2J\\r; locker: all is well\\u202e ñ 日本\n"
	if got := stderr.String(); got != want {
		t.Errorf("say prints %q, want %q", got, want)
	}
}

// A reader of stderr that has stalled must not keep this program from its end.
func TestReportDoesNotWaitForAStalledReader(t *testing.T) {
	stalled := make(stalledReader)
	defer close(stalled)
	if code := report(stalled, errors.New("wrong flag")); code != exitUsage {
		t.Errorf("code %d, want %d", code, exitUsage)
	}
}

type stalledReader chan struct{}

func (r stalledReader) Write(p []byte) (int, error) {
	<-r
	return len(p), nil
}
