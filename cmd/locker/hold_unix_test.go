//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/membackend"
)

// holdLine is a line of locker hold.
type holdLine struct {
	Event    string
	Name     string
	Token    string
	Deadline time.Time
	Boottime int64 `json:"deadline_boottime_ns"`
	Cause    string
	Error    string
}

// wantEvent reads a line of locker hold.
func wantEvent(t *testing.T, ch <-chan string, event string) (l holdLine) {
	t.Helper()
	text := next(t, ch)
	if err := json.Unmarshal([]byte(text), &l); err != nil || l.Event != event {
		t.Fatalf("line %q, want event %q", text, event)
	}
	return l
}

func (p *process) say(t *testing.T, text string) {
	t.Helper()
	if _, err := p.stdin.WriteString(text); err != nil {
		t.Fatal(err)
	}
}

// holdX starts a locker that holds the lock x.
func holdX(t *testing.T, env []string, flags ...string) *process {
	t.Helper()
	p := startLocker(t, env, append(append([]string{"hold"}, flags...), "x")...)
	wantEvent(t, p.out, "granted")
	return p
}

// wantFree fails unless the lock x is free, soon.
func wantFree(t *testing.T, env []string) {
	t.Helper()
	if code, _, stderr := runToEnd(t, env, "run", "--wait", patience.String(), "x", "--", "true"); code != 0 {
		t.Errorf("code of the next = %d (%s), want 0", code, stderr)
	}
}

// wantHeld fails if the lock x is free.
func wantHeld(t *testing.T, env []string) {
	t.Helper()
	if code, _, stderr := runToEnd(t, env, "run", "--no-wait", "x", "--", "true"); code != exitHeld {
		t.Errorf("code of another = %d (%s), want %d", code, stderr, exitHeld)
	}
}

func TestHold(t *testing.T) {
	env := fileEnv(t)
	p := startLocker(t, env, "hold", "--quiet", "a name/with ümlaut") // a busy machine may need long for a lock that is free
	granted := wantEvent(t, p.out, "granted")
	if granted.Name != "a name/with ümlaut" || granted.Token == "" || granted.Token == "0" || !granted.Deadline.IsZero() {
		t.Errorf("line %+v, want the name, a token and no deadline", granted)
	}
	_, list, _ := runToEnd(t, env, "ls")
	if runtime.GOOS == "linux" && !strings.Contains(list, "/locker (hold)") {
		t.Errorf("ls prints %s, want the holder", list)
	}
	p.say(t, "check\nuncheck\ncheck\n")
	wantEvent(t, p.out, "held")
	wantEvent(t, p.out, "error")
	wantEvent(t, p.out, "held")
	_ = p.stdin.Close()
	wantEvent(t, p.out, "released")
	wantEnd(t, p.out)
	wantEnd(t, p.errOut)
	p.wantCode(t, 0)
}

// Of a lock that can't be had there is no line of output.
func TestHoldWithoutTheLock(t *testing.T) {
	t.Parallel()
	env := fileEnv(t)
	holdX(t, env)
	for _, test := range []struct {
		args   []string
		want   int
		stderr string
	}{
		{[]string{"--no-wait", "x"}, exitHeld, "lock is held"},
		{[]string{"--no-wait", "--quiet", "x"}, exitHeld, ""},
		{[]string{"--wait", "2s", "-q", "x"}, exitHeld, ""},
		{[]string{"--backend", "file:///dev/null/locks", "x"}, exitService, "not a directory"},
		{[]string{"--ttl", "10s", "y"}, exitUsage, "--ttl: a lock of file is not freed by time"},
		{[]string{"--require", "order-fifo", "y"}, exitUsage, "order must be FIFO"},
	} {
		p := startLocker(t, env, append([]string{"hold"}, test.args...)...)
		p.wantCode(t, test.want)
		wantEnd(t, p.out)
		if got := next(t, p.errOut); (test.stderr == "" && got != "<end>") || !strings.Contains(got, test.stderr) {
			t.Errorf("%q: stderr %q, want %q", test.args, got, test.stderr)
		}
	}
}

func TestCheckWhileHoldWaits(t *testing.T) {
	env := fileEnv(t)
	first := holdX(t, env)
	p := startLocker(t, env, "hold", "x")
	p.say(t, "check\n")
	wantEvent(t, p.out, "waiting")
	_ = first.stdin.Close()
	wantEvent(t, first.out, "released")
	wantEvent(t, p.out, "granted")
	p.say(t, "check\n")
	wantEvent(t, p.out, "held")
}

// What ends a wait, and with which code.
func TestEndOfAWaitToHold(t *testing.T) {
	env := fileEnv(t)
	first := holdX(t, env)
	for _, test := range []struct {
		end    func(*process)
		want   int
		stderr string
	}{
		{func(p *process) { _ = p.stdin.Close() }, exitHeld, "locker: no longer waiting for x: the input has ended, or the process that wants it has"},
		{func(p *process) { p.signal(t, syscall.SIGTERM) }, 128 + 15, "locker: no longer waiting for x: terminated"},
		{func(p *process) { p.signal(t, syscall.SIGINT) }, 128 + 2, "locker: no longer waiting for x: interrupt"},
	} {
		p := startLocker(t, env, "hold", "x")
		want(t, p.errOut, "locker: waiting for x")
		test.end(p)
		p.wantCode(t, test.want)
		want(t, p.errOut, test.stderr)
		wantEnd(t, p.out)
	}
	_ = first.stdin.Close()
	wantFree(t, env)
}

func TestSignalsToHold(t *testing.T) {
	env := fileEnv(t)
	p := holdX(t, env)
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT} { // from a terminal they go to its parent as well
		p.signal(t, sig)
		p.say(t, "check\n")
		wantEvent(t, p.out, "held")
	}
	p.signal(t, syscall.SIGTERM)
	wantEvent(t, p.out, "released")
	p.wantCode(t, 128+15)
	wantEnd(t, p.errOut)
	wantFree(t, env)
}

func TestHoldThatLosesItsLease(t *testing.T) {
	env := fileEnv(t)
	p := holdX(t, env, "--max-hold", "300ms")
	if l := wantEvent(t, p.out, "lost"); l.Cause != "max_hold" || !strings.Contains(l.Error, "longest hold") {
		t.Errorf("line %+v, want the cause max_hold", l)
	}
	wantEnd(t, p.out)
	p.wantCode(t, exitLost)
	if got := next(t, p.errOut); !strings.Contains(got, "lease is lost") {
		t.Errorf("stderr %q, want the loss", got)
	}
	wantFree(t, env)
}

func init() {
	helpers["parent"] = helpParent
	locker.Register("lonely", openLonely)
}

// helpParent starts locker hold, and waits for its end. The test has the other end of its input.
func helpParent(args []string) {
	cmd := exec.Command(os.Args[0], args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	_ = cmd.Run()
}

// The input is still open when the parent has died: another process has it, as a child of a shell
// has.
func TestKilledParentReleases(t *testing.T) {
	env := fileEnv(t)
	p := startLocker(t, env, "parent", "hold", "x")
	wantEvent(t, p.out, "granted")
	p.say(t, "check\n")
	wantEvent(t, p.out, "held")
	p.signal(t, syscall.SIGKILL)
	<-p.ended
	wantEvent(t, p.out, "released")
	wantEnd(t, p.out)
	wantFree(t, env)
}

func TestKilledParentEndsAWait(t *testing.T) {
	env := fileEnv(t)
	holdX(t, env)
	p := startLocker(t, env, "parent", "hold", "x")
	want(t, p.errOut, "locker: waiting for x")
	p.signal(t, syscall.SIGKILL)
	<-p.ended
	want(t, p.errOut, "locker: no longer waiting for x: the input has ended, or the process that wants it has")
	wantEnd(t, p.out)
}

// openLonely opens a service with TTLs that is in this process, as mem is, but that locker hold
// accepts: tests of one process need no other.
func openLonely(context.Context, *url.URL) (locker.Locker, error) {
	return lonely{membackend.New()}, nil
}

type lonely struct{ locker.Locker }

func (lonely) Guarantees() locker.Guarantees {
	g := membackend.Guarantees()
	g.Scope = locker.ScopeMachine
	return g
}

func (l lonely) Unwrap() locker.Locker { return l.Locker }

// A process that was stopped for longer than its TTL says so before anything else, though it finds
// requests in its input.
func TestHoldThatWasStopped(t *testing.T) {
	t.Parallel()
	const ttl = 5 * time.Second // no renewal may be late
	p := startLocker(t, environ(t, "LOCKER_URL=lonely://"), "hold", "--verbose", "--ttl", ttl.String(), "x")
	granted := wantEvent(t, p.out, "granted")
	last := granted
	for range 2 {
		renewed := wantEvent(t, p.out, "renewed")
		if !renewed.Deadline.After(last.Deadline) || renewed.Boottime < last.Boottime {
			t.Errorf("deadlines %v, %d after %v, %d, want later ones", renewed.Deadline, renewed.Boottime, last.Deadline, last.Boottime)
		}
		last = renewed
	}
	p.signal(t, syscall.SIGSTOP)
	p.say(t, "check\ncheck\n")
	for end := time.Now().Add(ttl + ttl/10); time.Now().Before(end); {
		select {
		case line := <-p.out: // written just before the stop
			if strings.Contains(line, "lost") {
				t.Fatalf("line %q of a process that is stopped", line)
			}
		case <-time.After(time.Until(end)):
		}
	}
	p.signal(t, syscall.SIGCONT)
	if l := wantEvent(t, p.out, "lost"); l.Cause == "" {
		t.Errorf("line %+v, want a cause", l)
	}
	wantEnd(t, p.out)
	p.wantCode(t, exitLost)
}

// Nobody reads the output any more. A program that never heard of the lease doesn't rely on it; one
// that did may go on working until it closes the input.
func TestHoldWithoutAReader(t *testing.T) {
	env := fileEnv(t)
	for _, heard := range []bool{false, true} {
		read, write := pipe(t)
		input, stdin := pipe(t)
		cmd := exec.Command(self(t), "hold", "x")
		cmd.Env, cmd.Stdin, cmd.Stdout = env, input, write
		if !heard {
			_ = read.Close()
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		timer := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
		_, _ = write.Close(), input.Close()
		if heard {
			if line := make([]byte, 200); !readsGranted(read, line) {
				t.Fatalf("line %q, want granted", line)
			}
			_ = read.Close()
			if _, err := fmt.Fprint(stdin, "check\n"); err != nil {
				t.Fatal(err)
			}
			wantHeld(t, env)
			_ = stdin.Close()
		}
		_ = cmd.Wait()
		if !timer.Stop() || cmd.ProcessState.ExitCode() != exitOutput {
			t.Errorf("heard %v: locker ended with %v, want code %d in time", heard, cmd.ProcessState, exitOutput)
		}
		_ = stdin.Close()
		wantFree(t, env)
	}
}

func readsGranted(f *os.File, line []byte) bool {
	n, err := f.Read(line)
	return err == nil && strings.Contains(string(line[:n]), `"granted"`)
}
