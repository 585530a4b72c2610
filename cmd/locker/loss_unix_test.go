//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package main

import (
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

func TestLossEndsCmd(t *testing.T) {
	const lost = `locker: lease "x" on file: lease is lost: held for longer than the longest hold allowed; CMD gets TERM now and KILL after `
	for _, test := range []struct {
		name  string
		grace string
		cmd   []string
		ready int // helpers that say so
		term  int // how often they print TERM; -1: they may be killed before
	}{
		{"by TERM", "1h0m0s", []string{self(t), "signals"}, 1, 1},
		{"by KILL", "3s", []string{self(t), "signals", "stubborn"}, 1, 1},
		{"without grace", "0s", []string{self(t), "signals", "stubborn"}, 1, -1},
		// The shell ends by TERM. Its child doesn't, and must not remain.
		{"group", "1h0m0s", []string{"sh", "-c", "exec 3<&0; " + quote(self(t)) + " signals stubborn <&3 & wait"}, 1, -1},
		// CMD has stopped itself when the lease is lost; it gets TERM all the same.
		{"stopped", "1h0m0s", []string{"sh", "-c", "kill -STOP $$"}, 0, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			env := fileEnv(t)
			// CMD has to be ready by then, also where processes take a second to start.
			p := startLocker(t, env, append([]string{"run", "--quiet", "--max-hold", "5s", "--grace", test.grace, "x", "--"}, test.cmd...)...)
			for range test.ready {
				wantReady(t, p.out)
			}
			want(t, p.errOut, lost+test.grace)
			p.wantCode(t, exitLost)
			term := 0
			for line := next(t, p.out); line != "<end>"; line = next(t, p.out) { // the end: nobody of the group is left
				if line == syscall.SIGTERM.String() {
					term++
				}
			}
			if test.term >= 0 && term != test.term {
				t.Errorf("CMD got TERM %d times, want %d", term, test.term)
			}
			wantEnd(t, p.errOut)
			if code, _, stderr := runToEnd(t, env, "run", "--no-wait", "x", "--", "true"); code != 0 {
				t.Errorf("code of the next = %d (%s), want 0", code, stderr)
			}
		})
	}
}

// A reader of stderr that has stalled must keep locker neither from its lock nor from ending CMD.
func TestStalledStderrStopsNothing(t *testing.T) {
	read, write := pipe(t)
	defer read.Close()
	defer write.Close()
	fill(t, write)
	cmd := exec.Command(self(t), "run", "--max-hold", "300ms", "--grace", "100ms", "x", "--", "sh", "-c", "trap '' TERM; while :; do sleep 1; done")
	cmd.Env = fileEnv(t)
	cmd.Stderr = write
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	timer := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
	_ = cmd.Wait()
	if !timer.Stop() || cmd.ProcessState.ExitCode() != exitLost {
		t.Errorf("locker ended with %v, want code %d in time", cmd.ProcessState, exitLost)
	}
}

// Nor must one that has gone. CMD's own SIGPIPE is as ever.
func TestClosedStderrStopsNothing(t *testing.T) {
	for _, test := range []struct {
		flags []string
		cmd   string
		want  int
	}{
		{nil, "kill -PIPE $$", 128 + 13},
		{[]string{"--max-hold", "300ms"}, "while :; do sleep 1; done", exitLost},
	} {
		env := fileEnv(t)
		_, release := hold(t, env)
		read, write := pipe(t)
		_ = read.Close()
		cmd := exec.Command(self(t), append(append([]string{"run"}, test.flags...), "x", "--", "sh", "-c", test.cmd)...)
		cmd.Env = env
		cmd.Stderr = write
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		_ = write.Close()
		time.AfterFunc(2*noticeAfter, release) // so that there is something to write
		_ = cmd.Wait()
		if got := cmd.ProcessState.ExitCode(); got != test.want {
			t.Errorf("%q: locker ended with %v, want code %d", test.cmd, cmd.ProcessState, test.want)
		}
	}
}

// fill writes to a pipe until it is full, and leaves it blocking for those who inherit it.
func fill(t *testing.T, w *os.File) {
	t.Helper()
	if err := w.SetWriteDeadline(time.Now().Add(100 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := w.Write(make([]byte, 1)); err != nil {
			break
		}
	}
	_ = w.Fd() // sets it to blocking
}
