//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package main

import (
	"context"
	"errors"
	"io"
	"iter"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/membackend"
)

func init() {
	locker.Register("taken", func(context.Context, *url.URL) (locker.Locker, error) {
		return taken7{lonely{membackend.New()}}, nil
	})
}

// taken7 is a service on which a lease with the token 7 has each lock.
type taken7 struct{ lonely }

func (taken7) Inspect(_ context.Context, name string, _ locker.Look) (locker.Status, error) {
	return locker.Status{Name: name, Key: name, Holder: &locker.Party{Token: 7, Holder: "alice"}}, nil
}

func (taken7) List(context.Context, string, int) iter.Seq2[locker.Status, error] {
	return func(func(locker.Status, error) bool) {}
}

func (taken7) Break(context.Context, string, locker.Token, locker.Breach) (locker.Effect, error) {
	return locker.Effect{}, nil
}

// A break that fails may have marked the lease: then it is said that the audit has no line.
func TestAuditOfAFailureWithoutADisk(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("there is no /dev/full")
	}
	to := &auditLog{stderr: io.Discard, file: full}
	defer to.close()
	v := victim{name: "deploy", token: 7, row: statusRow{Holder: &partyRow{}}}
	_, err = v.take(t.Context(), failing{taken7{lonely{membackend.New()}}}, locker.Breach{Reason: "x"}, to)
	if !errors.Is(err, errFailing) || !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("take = %v, want both errors", err)
	}
}

type failing struct{ taken7 }

var errFailing = errors.New("no answer")

func (failing) Break(context.Context, string, locker.Token, locker.Breach) (locker.Effect, error) {
	return locker.Effect{}, errFailing
}

// The file has its line, and the exit code is the normal one, if nobody reads the error output any more.
func TestAuditWithoutAReader(t *testing.T) {
	surviveBrokenPipe() // so that no child ignores the signal, whatever has started this process
	for _, audited := range []bool{true, false} {
		file := filepath.Join(t.TempDir(), "audit")
		read, write := pipe(t)
		_ = read.Close()
		args := []string{"break", "deploy", "--token", "7", "--yes", "--reason", "hangs"}
		want := exitService // it couldn't say what it has done
		if audited {
			args, want = append(args, "--audit", file), 0
		}
		cmd := exec.CommandContext(t.Context(), self(t), args...)
		cmd.Env, cmd.Stderr = environ(t, "LOCKER_URL=taken://"), write
		_ = cmd.Run()
		_ = write.Close()
		if got := cmd.ProcessState.ExitCode(); got != want {
			t.Errorf("with --audit %v: %v, want code %d", audited, cmd.ProcessState, want)
		}
		text, err := os.ReadFile(file)
		if audited && (err != nil || strings.Count(string(text), "\n") != 1 || !strings.Contains(string(text), `"holder":"alice"`)) {
			t.Errorf("the file has %q, %v, want one line", text, err)
		}
	}
}
