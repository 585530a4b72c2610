//go:build linux || darwin || freebsd || openbsd || dragonfly

package filebackend_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/filebackend"
)

// The test binary runs itself as other processes: with the variable set, it is the helper that the
// variable names.
const helperVar = "FILEBACKEND_TEST_HELPER"

// helpers are what such a process does with its arguments: a directory, and others.
var helpers = map[string]func(ctx context.Context, args []string) error{
	"hold":    hold,
	"inherit": inherit,
	"block":   block,
	"count":   count,
}

func TestMain(m *testing.M) {
	name := os.Getenv(helperVar)
	if name == "" {
		goleak.VerifyTestMain(m)
	}
	if err := helpers[name](context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// helper is another process.
type helper struct {
	*exec.Cmd
	stdin io.Closer
	lines *bufio.Scanner
}

func start(t testing.TB, name string, args ...string) *helper {
	t.Helper()
	return startWith(t, nil, name, args...)
}

func startWith(t testing.TB, files []*os.File, name string, args ...string) *helper {
	t.Helper()
	h := &helper{Cmd: command(name, args...)}
	h.ExtraFiles = files
	stdin, err := h.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := h.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	h.stdin, h.lines = stdin, bufio.NewScanner(stdout)
	if err := h.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = stdin.Close()
		_ = h.Process.Kill()
		_ = h.Wait()
	})
	return h
}

func command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), helperVar+"="+name, "GORACE=atexit_sleep_ms=0")
	cmd.Stderr = os.Stderr
	return cmd
}

// expect reads the next line of the helper, which is a word and a number.
func (h *helper) expect(t testing.TB, word string) int64 {
	t.Helper()
	if !h.lines.Scan() {
		t.Fatalf("the helper ended before it said %q: %v", word, h.lines.Err())
	}
	got, number, _ := strings.Cut(h.lines.Text(), " ")
	n, err := strconv.ParseInt(number, 10, 64)
	if got != word || err != nil {
		t.Fatalf("the helper said %q, want %q and a number", h.lines.Text(), word)
	}
	return n
}

// kill ends the process without a chance to do anything.
func (h *helper) kill(t testing.TB) {
	t.Helper()
	if err := h.Process.Kill(); err != nil {
		t.Fatal(err)
	}
}

// say sends the test a word and a number.
func say(word string, n any) { fmt.Println(word, n) }

// untilEOF returns when the test has closed the helper's standard input, or has ended.
func untilEOF() { _, _ = io.Copy(io.Discard, os.Stdin) }

// hold holds a lock until the test closes the helper's standard input.
func hold(ctx context.Context, args []string) error {
	l, err := filebackend.New(args[0])
	if err != nil {
		return err
	}
	lease, err := l.Acquire(ctx, args[1])
	if err != nil {
		return err
	}
	say("holds", lease.Token())
	untilEOF()
	return errors.Join(lease.Release(ctx), l.Close())
}

// inherit holds a lock together with a child, and does nothing else until it is killed.
func inherit(ctx context.Context, args []string) error {
	l, err := filebackend.New(args[0])
	if err != nil {
		return err
	}
	lease, err := l.Acquire(ctx, args[1])
	if err != nil {
		return err
	}
	h, _ := locker.As[filebackend.Handle](lease)
	f, err := h.File()
	if err != nil {
		return err
	}
	child := command("block")
	child.Stdin, child.Stdout, child.ExtraFiles = os.Stdin, os.Stdout, []*os.File{f}
	if err := child.Start(); err != nil {
		return err
	}
	return child.Wait()
}

// block has a lock's descriptor, and runs until its standard input is closed.
func block(context.Context, []string) error {
	var st syscall.Stat_t
	if err := syscall.Fstat(3, &st); err != nil {
		return fmt.Errorf("the descriptor was not inherited: %w", err)
	}
	say("blocks", os.Getpid())
	untilEOF()
	return nil
}

// count adds one to the number in a file, in steps that others could come between, and appends its
// token to another.
func count(ctx context.Context, args []string) error {
	l, err := filebackend.New(args[0])
	if err != nil {
		return err
	}
	err = locker.Do(ctx, l, args[1], func(_ context.Context, lease locker.Lease) error {
		text, err := os.ReadFile(args[2])
		if err != nil {
			return err
		}
		n, err := strconv.Atoi(string(text))
		if err != nil {
			return err
		}
		log, err := os.OpenFile(args[3], os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(log, lease.Token())
		return errors.Join(err, log.Close(), os.WriteFile(args[2], []byte(strconv.Itoa(n+1)), 0o600))
	})
	return errors.Join(err, l.Close())
}
