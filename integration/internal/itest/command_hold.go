//go:build unix

package itest

import (
	"io"
	"strings"
	"syscall"
	"testing"
	"time"
)

// hold runs locker hold on a service: a lease that is renewed and released, one of a process that is
// stopped for longer than its TTL, and one whose service answers no longer.
func hold(t *testing.T, binary string, s CommandService) {
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
	select {
	case line := <-p.lines:
		t.Fatalf("line %s of a process that is stopped", line)
	case <-time.After(commandTTL + commandTTL/10): // whenever it was renewed last
	}
	if _, err := io.WriteString(p.stdin, "check\n"); err != nil { // not before: a stop takes effect a little later
		t.Fatal(err)
	}
	p.signal(t, syscall.SIGCONT)
	p.event(t, "lost")
	p.wantCode(t, 119)

	p = startCommand(t, binary, s.URL, args...)
	p.event(t, "granted")
	s.Pause(t)
	lost := p.event(t, "lost")
	s.Resume(t)
	if lost.Cause != "service_silent" {
		t.Errorf("line %+v, want the silence of the service as the cause", lost)
	}
	p.wantCode(t, 119)
	wantResidue(t, s.Residue, 3*commandTTL)
}
