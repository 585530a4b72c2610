//go:build unix

package itest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fencedlock/locker/conformance"
)

// commandTTL is a TTL that every service serves, and in which a busy machine renews a lease.
const commandTTL = 5 * time.Second

// removedIn is how long the servers may need to clear away what was removed. A lock that was left to
// its TTL is still there then.
const removedIn = commandTTL / 2

// buildCommand builds cmd/locker for a package one folder below integration.
func buildCommand(t *testing.T) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "locker")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "./cmd/locker")
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return binary
}

// Bench runs locker bench on a service, which must be fit, and interrupts another run of it. Nothing
// is left of either. LOCKER_BENCH has other flags, for figures: then there is one run, and the servers
// may need longer to clear away what was removed.
func Bench(t *testing.T, url string, residue func(conformance.T) string) {
	t.Helper()
	binary := buildCommand(t)
	flags := []string{"--for", "2s", "--leases", "200", "--ttl", commandTTL.String()}
	own, figures := os.LookupEnv("LOCKER_BENCH")
	if figures {
		flags = strings.Fields(own)
	}
	cmd := exec.CommandContext(t.Context(), binary, append([]string{"bench"}, flags...)...)
	cmd.Env = append(os.Environ(), "LOCKER_URL="+url)
	out, err := cmd.CombinedOutput()
	t.Logf("locker bench %s\n%s", strings.Join(flags, " "), out)
	if err != nil {
		t.Errorf("locker bench = %v, want nil", err)
	}
	if figures {
		return
	}
	wantResidue(t, residue, removedIn)
	interrupted := startCommand(t, binary, url, "bench", "--for", "500ms", "--leases", "200", "--ttl", commandTTL.String())
	for line := ""; !strings.HasPrefix(line, "hand-off "); { // the leases are being acquired now, or held
		line = interrupted.line(t)
	}
	interrupted.signal(t, syscall.SIGINT)
	interrupted.wantCode(t, 128+2)
	wantResidue(t, residue, removedIn)
}

// wantResidue fails unless a service has nothing left within a time.
func wantResidue(t *testing.T, residue func(conformance.T) string, within time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	err := Until(ctx, func(context.Context) error {
		if left := residue(t); left != "" {
			return errors.New(left)
		}
		return nil
	})
	if err != nil {
		t.Errorf("left: %v", err)
	}
}

// HoldTarget is a service for locker hold.
type HoldTarget struct {
	URL           string
	Residue       func(conformance.T) string
	Pause, Resume func(conformance.T)
}

// Hold runs locker hold on a service: a lease that is renewed and released, one of a process that is
// stopped for longer than its TTL, and one whose service answers no longer.
func Hold(t *testing.T, s HoldTarget) {
	t.Helper()
	binary := buildCommand(t)
	args := []string{"hold", "--ttl", commandTTL.String(), "x"}
	p := startCommand(t, binary, s.URL, append(args, "--verbose")...)
	granted := p.event(t, "granted")
	if left := time.Until(granted.Deadline); granted.Token == "" || left <= 0 || left > commandTTL {
		t.Errorf("line %+v, want a token and a deadline in up to %v", granted, commandTTL)
	}
	if renewed := p.event(t, "renewed"); !renewed.Deadline.After(granted.Deadline) {
		t.Errorf("deadline %v after %v, want a later one", renewed.Deadline, granted.Deadline)
	}
	_ = p.stdin.Close()
	for line := ""; !strings.Contains(line, `"released"`); { // it may be renewed before
		line = p.line(t)
	}
	p.wantCode(t, 0)

	p = startCommand(t, binary, s.URL, args...)
	p.event(t, "granted")
	p.signal(t, syscall.SIGSTOP)
	if _, err := io.WriteString(p.stdin, "check\n"); err != nil {
		t.Fatal(err)
	}
	for asleep := time.After(commandTTL + commandTTL/10); asleep != nil; { // whenever it was renewed last
		select {
		case line := <-p.lines: // a stop takes effect a little later than it is asked for
			if !strings.Contains(line, `"held"`) {
				t.Fatalf("line %s of a process that is stopped", line)
			}
		case <-asleep:
			asleep = nil
		}
	}
	p.signal(t, syscall.SIGCONT)
	p.event(t, "lost")
	p.wantCode(t, 119)

	p = startCommand(t, binary, s.URL, args...)
	p.event(t, "granted")
	s.Pause(t)
	lost := p.event(t, "lost")
	s.Resume(t)
	if lost.Cause != "service_silent" && lost.Cause != "service_failed" {
		t.Errorf("line %+v, want the service as the cause", lost)
	}
	p.wantCode(t, 119)
	wantResidue(t, s.Residue, 3*commandTTL)
}

// command is a process of cmd/locker.
type command struct {
	*exec.Cmd
	stdin io.WriteCloser
	lines chan string
	ended chan struct{}
}

func startCommand(t *testing.T, binary, url string, args ...string) *command {
	t.Helper()
	c := &command{Cmd: exec.CommandContext(t.Context(), binary, args...), lines: make(chan string, 100), ended: make(chan struct{})}
	c.Env = append(os.Environ(), "LOCKER_URL="+url)
	c.Stderr = os.Stderr
	stdin, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	c.stdin = stdin
	go func() {
		defer close(c.ended)
		for s := bufio.NewScanner(stdout); s.Scan(); {
			c.lines <- s.Text()
		}
		close(c.lines)
		_ = c.Wait()
	}()
	return c
}

// heldLine is a line of locker hold.
type heldLine struct {
	Event, Token, Cause, Error string
	Deadline                   time.Time
}

// commandLimit is how long a line, or the end, may be awaited.
const commandLimit = time.Minute

func (c *command) line(t *testing.T) string {
	t.Helper()
	select {
	case line, ok := <-c.lines:
		if !ok {
			t.Fatal("the output has ended")
		}
		return line
	case <-time.After(commandLimit):
		t.Fatal("no line in time")
	}
	return ""
}

func (c *command) event(t *testing.T, event string) (l heldLine) {
	t.Helper()
	line := c.line(t)
	if err := json.Unmarshal([]byte(line), &l); err != nil || l.Event != event {
		t.Fatalf("line %s, %v, want event %q", line, err, event)
	}
	return l
}

func (c *command) signal(t *testing.T, sig syscall.Signal) {
	t.Helper()
	if err := c.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
}

func (c *command) wantCode(t *testing.T, want int) {
	t.Helper()
	select {
	case <-c.ended:
	case <-time.After(commandLimit):
		t.Fatal("the process hasn't ended in time")
	}
	if got := c.ProcessState.ExitCode(); got != want {
		t.Errorf("exit code %d, want %d", got, want)
	}
}
