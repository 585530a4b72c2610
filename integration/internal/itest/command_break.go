//go:build unix

package itest

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// breakLock runs locker break on a service, while locker hold has the lock: the holder is told who has
// taken it away and why, and nothing is left.
func breakLock(t *testing.T, binary string, s CommandService) {
	url := s.URL
	holder := startCommand(t, binary, url, "hold", "--ttl", commandTTL.String(), "x")
	granted := holder.event(t, "granted")
	waitShown(t, binary, url, granted.Token)
	out, err := runCommand(t, binary, url, "break", "--token", "1", "--reason", "not this one", "--yes", "x")
	if code := exitCodeOf(err); code != 1 {
		t.Fatalf("break of another lease: code %d, want 1\n%s", code, out)
	}
	out, err = runCommand(t, binary, url, "break", "--token", granted.Token, "--reason", "hangs, OPS-119", "--yes", "--wait", "x")
	if err != nil || !strings.Contains(out, `"token":"`+granted.Token+`"`) || !strings.Contains(out, "free after ") {
		t.Errorf("break = %v, want nil, the holder's token and that the lock is free\n%s", err, out)
	}
	lost := holder.event(t, "lost")
	if lost.Cause != "broken" || !strings.Contains(lost.Error, "hangs, OPS-119") {
		t.Errorf("line %+v, want the reason", lost)
	}
	holder.wantCode(t, 119)
	breakPermit(t, binary, url)
	breakOnPage(t, binary, url)
	wantResidue(t, s.Residue, 3*commandTTL)
}

// breakPermit takes a permit away while the lock of its name is held.
func breakPermit(t *testing.T, binary, url string) {
	t.Helper()
	lock := startCommand(t, binary, url, "hold", "--ttl", commandTTL.String(), "x")
	lock.event(t, "granted")
	permit := startCommand(t, binary, url, "run", "--ttl", commandTTL.String(), "--permits", "1", "x", "--", "sh", "-c", "echo $LOCKER_TOKEN; exec sleep 60")
	token := permit.line(t)
	waitShown(t, binary, url, token, "--permits")
	out, err := runCommand(t, binary, url, "break", "--slot", "1", "--token", token, "--reason", "hangs, OPS-120", "--yes", "--wait", "x")
	if err != nil || !strings.Contains(out, `"name":"x","slot":1,`) || !strings.Contains(out, "free after ") {
		t.Errorf("break --slot = %v, want nil, the slot and that the permit is free\n%s", err, out)
	}
	permit.wantCode(t, 119)
	if out, err := runCommand(t, binary, url, "show", "--check", "x"); err != nil {
		t.Errorf("after a break of a permit show --check of the lock = %v\n%s", err, out)
	}
	lock.signal(t, syscall.SIGTERM)
	lock.wantCode(t, 128+15)
}

// breakOnPage takes a lock away by a request of the page of locker ui.
func breakOnPage(t *testing.T, binary, url string) {
	t.Helper()
	const token = "0123456789abcdef"
	tokenFile, auditFile := filepath.Join(t.TempDir(), "alice"), filepath.Join(t.TempDir(), "audit")
	if err := os.WriteFile(tokenFile, []byte(token), 0o600); err != nil {
		t.Fatal(err)
	}
	page := startCommand(t, "sh", url, "-c", `exec "$0" "$@" 2>&1`, binary, "ui", "--listen", "127.0.0.1:0", "--token-file", tokenFile, "--allow-break", "--audit", auditFile)
	_, address, _ := strings.Cut(page.line(t), " are on ")
	holder := startCommand(t, binary, url, "hold", "--ttl", commandTTL.String(), "x")
	granted := holder.event(t, "granted")
	waitShown(t, binary, url, granted.Token)
	post := func(of string) (code int, text string) {
		t.Helper()
		body := `{"name":"x","slot":0,"token":"` + of + `","reason":"hangs, OPS-121","at_once":false}`
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address+"api/break", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
		r.Header.Set("Content-Type", "application/json")
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		got, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answer.StatusCode, string(got)
	}
	if code, text := post("1"); code != http.StatusConflict {
		t.Errorf("a break of another lease: %d, %s, want %d", code, text, http.StatusConflict)
	}
	if code, text := post(granted.Token); code != http.StatusOK || !strings.Contains(text, "marked: ") {
		t.Errorf("a break: %d, %s", code, text)
	}
	if lost := holder.event(t, "lost"); lost.Cause != "broken" || !strings.Contains(lost.Error, "alice, locker ui of ") {
		t.Errorf("line %+v, want who has broken it", lost)
	}
	holder.wantCode(t, 119)
	page.signal(t, syscall.SIGTERM)
	page.wantCode(t, 128+15)
	if audit, err := os.ReadFile(auditFile); err != nil || !strings.Contains(string(audit), `"token":"`+granted.Token+`"`) || strings.Count(string(audit), "\n") != 1 {
		t.Errorf("the audit is %q, %v, want one line", audit, err)
	}
	http.DefaultClient.CloseIdleConnections()
}

// waitShown returns when locker show shows the token: a lease that isn't shown can't be taken away. On
// Postgres that takes a third of the TTL.
func waitShown(t *testing.T, binary, url, token string, flags ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), commandLimit)
	defer cancel()
	args := append([]string{"show", "--format", "json", "x"}, flags...)
	err := Until(ctx, func(context.Context) error {
		out, err := runCommand(t, binary, url, args...)
		if err == nil && !strings.Contains(out, `"token": "`+token+`"`) {
			err = errors.New(out)
		}
		return err
	})
	if err != nil {
		t.Fatalf("token %s isn't shown: %v", token, err)
	}
}

func runCommand(t *testing.T, binary, url string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), binary, args...)
	cmd.Env = append(os.Environ(), "LOCKER_URL="+url)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// exitCodeOf is -1 for a process that didn't exit.
func exitCodeOf(err error) int {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return exit.ExitCode()
	}
	return -1
}
