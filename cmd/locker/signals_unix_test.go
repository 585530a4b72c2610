//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package main

import (
	"os/exec"
	"syscall"
	"testing"
)

func TestSignalsArePassedToTheGroup(t *testing.T) {
	// The shell waits for the helper; a signal that reached the shell alone would leave the helper
	// running.
	p := startLocker(t, fileEnv(t), "run", "--quiet", "x", "--", "sh", "-c",
		"trap : HUP INT QUIT USR1 USR2; "+quote(self(t))+" signals; exit $?")
	wantReady(t, p.out)
	for _, sig := range []syscall.Signal{
		syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH, syscall.SIGCONT,
	} {
		p.signal(t, sig)
		want(t, p.out, sig.String())
	}
	p.signal(t, syscall.SIGTERM)
	want(t, p.out, syscall.SIGTERM.String())
	wantEnd(t, p.out)
	p.wantCode(t, 128+15) // the shell has no trap for it
	wantEnd(t, p.errOut)
}

func TestIgnoredSignalsStayIgnored(t *testing.T) {
	// As under nohup(1). The helper says what it gets, so the shell that locker runs has to be the
	// witness.
	cmd := exec.Command("sh", "-c", "trap '' HUP INT; exec "+quote(self(t))+` run -q x -- sh -c 'kill -HUP $PPID $$; kill -INT $PPID $$; echo alive'`)
	cmd.Env = fileEnv(t)
	out, err := cmd.CombinedOutput()
	if err != nil || string(out) != "alive\n" {
		t.Errorf("output %q, error %v, want alive and nil", out, err)
	}
}
