package main

import (
	"fmt"
	"os"
	"runtime"
	"syscall"
	"testing"
)

// In these tests locker is root without the capability to signal others, and CMD is nobody. That is
// sudo(8) the other way round, as far as kill(2) is concerned.

func init() {
	helpers["powerless"] = helpPowerless
	helpers["nobody"] = helpNobody
}

// helpPowerless becomes locker.
func helpPowerless(args []string) {
	const prCapBSetDrop, capKill = 24, 5
	runtime.LockOSThread() // whose capabilities a program that it executes has
	if _, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, prCapBSetDrop, capKill, 0); errno != 0 {
		exitOn(errno)
	}
	exitOn(syscall.Exec("/proc/self/exe", append([]string{"locker"}, args...), os.Environ()))
}

// helpNobody is helpSignals as another user.
func helpNobody(args []string) {
	if err := syscall.Setuid(65534); err != nil {
		exitOn(err)
	}
	helpSignals(args)
}

func exitOn(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(3)
}

// startDenied starts a locker that may not signal its CMD, and returns when CMD is ready.
func startDenied(t *testing.T, flags ...string) *process {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can start a process of another user")
	}
	args := append(append([]string{"powerless", "run", "--quiet"}, flags...), "x", "--", self(t), "nobody")
	p := startLocker(t, fileEnv(t), args...)
	wantReady(t, p.out)
	return p
}

func TestSignalThatIsDeniedIsToldOnce(t *testing.T) {
	p := startDenied(t)
	p.signal(t, syscall.SIGTERM)
	want(t, p.errOut, "locker: CMD can't be signalled, because it runs as another user")
	p.signal(t, syscall.SIGUSR1)
	p.signal(t, syscall.SIGTERM)
	_ = p.stdin.Close()
	wantEnd(t, p.out)
	p.wantCode(t, 0)
	wantEnd(t, p.errOut)
}

func TestLossWithoutPermissionToEndCmd(t *testing.T) {
	p := startDenied(t, "--max-hold", "5s", "--grace", "100ms")
	want(t, p.errOut, `locker: lease "x" on file: lease is lost: held for longer than the longest hold allowed; `+
		"CMD can't be signalled, because it runs as another user")
	want(t, p.out, syscall.SIGCONT.String()) // which follows TERM, and may be sent to anybody of the session
	_ = p.stdin.Close()
	wantEnd(t, p.out)
	p.wantCode(t, exitLost)
	wantEnd(t, p.errOut)
}
