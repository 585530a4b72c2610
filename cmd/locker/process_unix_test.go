//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// patience is how long a test waits for what must come.
const patience = 20 * time.Second

// process is a locker under test, with its output as lines.
type process struct {
	*exec.Cmd
	stdin       *os.File
	out, errOut <-chan string
	ended       chan struct{}
}

// startLocker starts locker. It is killed at the end of the test, if it still runs then.
func startLocker(t *testing.T, env []string, args ...string) *process {
	t.Helper()
	p := &process{Cmd: exec.Command(self(t), args...), ended: make(chan struct{})}
	p.Env = env
	var ends [3]*os.File // the child's
	ends[0], p.stdin = pipe(t)
	read, write := pipe(t)
	p.out, ends[1] = lines(read), write
	read, write = pipe(t)
	p.errOut, ends[2] = lines(read), write
	p.Stdin, p.Stdout, p.Stderr = ends[0], ends[1], ends[2]
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	for _, f := range ends {
		_ = f.Close()
	}
	go func() {
		defer close(p.ended)
		_ = p.Wait()
	}()
	t.Cleanup(func() {
		_ = p.stdin.Close()
		_ = p.Process.Kill()
		<-p.ended
	})
	return p
}

func pipe(t *testing.T) (read, write *os.File) {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	return read, write
}

// lines reads until nobody has the other end any more. The last line may be without a newline.
func lines(f io.ReadCloser) <-chan string {
	ch := make(chan string, 100)
	go func() {
		defer close(ch)
		defer f.Close()
		for s := bufio.NewScanner(f); s.Scan(); {
			ch <- s.Text()
		}
	}()
	return ch
}

// want fails the test unless the next line is line. A notice of a wait may come before it: on a busy
// machine it may take that long to get a lock that is free.
func want(t *testing.T, ch <-chan string, line string) {
	t.Helper()
	got := next(t, ch)
	if got != line && strings.HasPrefix(got, "locker: waiting for ") {
		got = next(t, ch)
	}
	if got != line {
		t.Fatalf("line = %q, want %q", got, line)
	}
}

// wantEnd fails the test unless nothing more comes: all that had the other end have closed it, or
// have ended.
func wantEnd(t *testing.T, ch <-chan string) {
	t.Helper()
	if got := next(t, ch); got != "<end>" {
		t.Fatalf("line = %q, want the end", got)
	}
}

func next(t *testing.T, ch <-chan string) string {
	t.Helper()
	select {
	case line, ok := <-ch:
		if !ok {
			return "<end>"
		}
		return line
	case <-time.After(patience):
		t.Fatal("no line in time")
		return ""
	}
}

// wantCode waits for the end of a locker.
func (p *process) wantCode(t *testing.T, want int) {
	t.Helper()
	select {
	case <-p.ended:
	case <-time.After(patience):
		t.Fatal("locker hasn't ended in time")
	}
	if got := p.ProcessState.ExitCode(); got != want {
		t.Errorf("exit code = %d (%v), want %d", got, p.ProcessState, want)
	}
}

func (p *process) signal(t *testing.T, sig syscall.Signal) {
	t.Helper()
	if err := p.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
}

// fileEnv is an environment with a directory of locks that is this test's own.
func fileEnv(t *testing.T, env ...string) []string {
	t.Helper()
	return environ(t, append(env, "LOCKER_URL=file://"+locksDir(t))...)
}

// hold starts a locker whose command holds the lock x until release is called.
func hold(t *testing.T, env []string, flags ...string) (p *process, release func()) {
	t.Helper()
	p = startLocker(t, env, append(append([]string{"run"}, flags...), "x", "--", "sh", "-c", "echo held; read line")...)
	want(t, p.out, "held")
	return p, func() { _ = p.stdin.Close() }
}

func init() {
	helpers["signals"] = helpSignals
}

// helpSignals prints "ready" and then each signal it gets. It ends with its standard input unless
// it must be deaf, by SIGTERM with code 9 unless it must be stubborn, and by SIGKILL.
func helpSignals(args []string) {
	signals := make(chan os.Signal, 10)
	signal.Notify(signals, syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM,
		syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH, syscall.SIGCONT)
	fmt.Println("ready", os.Getpid())
	input := make(chan struct{})
	if !slices.Contains(args, "deaf") {
		go func() {
			defer close(input)
			_, _ = io.Copy(io.Discard, os.Stdin)
		}()
	}
	for {
		select {
		case sig := <-signals:
			if _, err := fmt.Println(sig); err != nil {
				return // its terminal is gone, and so is the test
			}
			if sig == syscall.SIGTERM && !slices.Contains(args, "stubborn") {
				os.Exit(9)
			}
		case <-input:
			return
		}
	}
}

// wantReady reads the first line of helpSignals and returns its process id.
func wantReady(t *testing.T, ch <-chan string) (pid int) {
	t.Helper()
	line := next(t, ch)
	if _, err := fmt.Sscanf(line, "ready %d", &pid); err != nil {
		t.Fatalf("line = %q, want ready", line)
	}
	return pid
}

// quote makes one word for sh of a path.
func quote(path string) string { return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'" }
