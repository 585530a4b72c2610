package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/cmd/locker/internal/top"
	"github.com/fencedlock/locker/cmd/locker/internal/ui"
	"github.com/fencedlock/locker/membackend"
)

// pageOf is what a page does, and what it has written to the error output.
func pageOf(t *testing.T, l locker.Locker, prefix string) (ui.Breaker, *bytes.Buffer) {
	t.Helper()
	t.Setenv("USER", "bob")
	stderr := new(bytes.Buffer)
	audit, err := openAudit(stderr, "")
	if err != nil {
		t.Fatal(err)
	}
	o := uiOptions{tokenFile: "/etc/locker/alice", allowBreak: true}
	return o.page(l, prefix, "0123456789abcdef", audit).Breaker, stderr
}

func wantRefusal(t *testing.T, what string, err error, code int, says string) {
	t.Helper()
	var refusal *ui.Refusal
	if !errors.As(err, &refusal) || refusal.Code != code || !strings.Contains(err.Error(), says) {
		t.Errorf("%s: %v, want the code %d and %q", what, err, code, says)
	}
}

// The page asks what break asks, and writes what break writes.
func TestPageTakesALockAway(t *testing.T) {
	held(t, func(t *testing.T, _ *membackend.Server, l locker.Locker, lease locker.Lease) {
		page, stderr := pageOf(t, l, "")
		request := ui.Request{Name: "deploy", Token: lease.Token().String(), Reason: "hangs, OPS-119"}
		for _, atOnce := range []bool{false, true} {
			b := breakOf(t, breakOptions{reason: "x", now: atOnce}, "deploy", "n\n")
			wantCode(t, b.run(t.Context(), l), exitChecked)
			request.AtOnce = atOnce
			got, err := page.Question(t.Context(), request)
			if want := strings.TrimSuffix(b.stderr.String(), " [y/N] "); got != want || err != nil {
				t.Errorf("the page asks %q, %v, and break asks %q", got, err, want)
			}
		}
		if lease.Err() != nil || stderr.Len() > 0 {
			t.Fatalf("after questions the lease's Err is %v, and the audit %q", lease.Err(), stderr)
		}
		request.AtOnce = false
		done, err := page.Break(t.Context(), request)
		if err != nil || !strings.HasPrefix(done, "marked: ") {
			t.Errorf("Break = %q, %v", done, err)
		}
		var breach *locker.Breach
		if err := lease.Err(); !errors.Is(err, locker.ErrBroken) || !errors.As(err, &breach) || breach.AtOnce ||
			breach.Reason != "hangs, OPS-119" || !strings.HasPrefix(breach.By, "alice, locker ui of bob@") {
			t.Errorf("the lease's Err is %v", err)
		}
		var line auditLine
		if err := json.Unmarshal(stderr.Bytes(), &line); err != nil || line.Action != "break" || line.Name != "deploy" || line.Token != lease.Token().String() ||
			line.Holder != "alice" || line.By != breach.By || line.Reason != breach.Reason || line.Mode != "safe" || line.WithinMS == nil || line.Time.IsZero() {
			t.Errorf("the audit is %q, %v", stderr, err)
		}
	})
}

// A lease that came after the one that was shown has done nothing wrong.
func TestPageSparesTheSuccessor(t *testing.T) {
	held(t, func(t *testing.T, _ *membackend.Server, l locker.Locker, lease locker.Lease) {
		page, stderr := pageOf(t, l, "")
		screen := topBreaker{l: l, audit: &auditLog{stderr: stderr}}
		request := ui.Request{Name: "deploy", Token: lease.Token().String(), Reason: "hangs", AtOnce: true}
		row := top.Row{Name: "deploy", Token: request.Token}
		if _, err := page.Question(t.Context(), request); err != nil {
			t.Fatal(err)
		}
		if err := lease.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := page.Break(t.Context(), request); err == nil {
			t.Error("a lock that is free is taken away")
		}
		next, err := l.Acquire(t.Context(), "deploy")
		if err != nil {
			t.Fatal(err)
		}
		_, err = page.Break(t.Context(), request)
		wantRefusal(t, "Break of a lease that has ended", err, http.StatusConflict, "and not with "+request.Token)
		_, err = page.Question(t.Context(), request)
		wantRefusal(t, "the question about it", err, http.StatusConflict, "is held with the token "+next.Token().String())
		if _, err = screen.take(t.Context(), row, true, "hangs"); err == nil || !strings.Contains(err.Error(), "and not with "+request.Token) {
			t.Errorf("take of top = %v", err)
		}
		if err := next.Err(); err != nil || stderr.Len() > 0 {
			t.Errorf("the Err of the next lease is %v, and the audit %q", err, stderr)
		}
	})
}

func TestPageRefuses(t *testing.T) {
	held(t, func(t *testing.T, _ *membackend.Server, l locker.Locker, lease locker.Lease) {
		page, _ := pageOf(t, l, "dep")
		good := ui.Request{Name: "deploy", Token: lease.Token().String(), Reason: "hangs"}
		for what, test := range map[string]struct {
			change func(*ui.Request)
			says   string
		}{
			"no token":               {func(r *ui.Request) { r.Token = "" }, "token is invalid"},
			"a token that is none":   {func(r *ui.Request) { r.Token = "-7" }, "token is invalid"},
			"no reason":              {func(r *ui.Request) { r.Reason = " " }, "a reason is required"},
			"a long reason":          {func(r *ui.Request) { r.Reason = strings.Repeat("x", locker.MaxReason+1) }, "want at most"},
			"a lock it doesn't show": {func(r *ui.Request) { r.Name = "other" }, "shows no lock of that name"},
			"a slot that can't be":   {func(r *ui.Request) { r.Slot = -2 }, "slot -2"},
		} {
			request := good
			test.change(&request)
			_, err := page.Break(t.Context(), request)
			wantRefusal(t, what, err, http.StatusBadRequest, test.says)
		}
		if err := lease.Err(); err != nil {
			t.Errorf("the lease has ended: %v", err)
		}
	})
}

func TestPageTakesAPermitAway(t *testing.T) {
	held(t, func(t *testing.T, _ *membackend.Server, l locker.Locker, lease locker.Lease) {
		page, _ := pageOf(t, l, "")
		permit, err := locker.AcquirePermit(t.Context(), l, "deploy", 1)
		if err != nil {
			t.Fatal(err)
		}
		request := ui.Request{Name: "deploy", Slot: 1, Token: permit.Token().String(), Reason: "hangs", AtOnce: true}
		question, err := page.Question(t.Context(), request)
		if err != nil || !strings.HasPrefix(question, "deploy, permit 1 is held by ") || !strings.Contains(question, "There may be two holders") {
			t.Errorf("the question is %q, %v", question, err)
		}
		if done, err := page.Break(t.Context(), request); err != nil || done != "taken away: the lock has passed on" {
			t.Errorf("Break = %q, %v", done, err)
		}
		if permit.Err() == nil || lease.Err() != nil {
			t.Errorf("the permit's Err is %v, and the lock's %v", permit.Err(), lease.Err())
		}
	})
}

func TestTopTakesALockAway(t *testing.T) {
	held(t, func(t *testing.T, _ *membackend.Server, l locker.Locker, lease locker.Lease) {
		var stderr bytes.Buffer
		screen := topBreaker{l: l, audit: &auditLog{stderr: &stderr}}
		row := top.Row{Name: "deploy", Token: lease.Token().String()}
		question, err := screen.question(t.Context(), row, false)
		if err != nil || !strings.HasPrefix(question, "deploy is held by alice, for ") || lease.Err() != nil {
			t.Errorf("the question is %q, %v, and the lease's Err %v", question, err, lease.Err())
		}
		if done, err := screen.take(t.Context(), row, false, "hangs"); err != nil || !strings.HasPrefix(done, "marked: ") {
			t.Errorf("take = %q, %v", done, err)
		}
		if err := lease.Err(); !errors.Is(err, locker.ErrBroken) || !strings.Contains(stderr.String(), `"reason":"hangs","mode":"safe"`) {
			t.Errorf("the lease's Err is %v, and the audit %q", err, &stderr)
		}
		if _, err := screen.question(t.Context(), top.Row{Name: "deploy", Token: "-"}, false); err == nil {
			t.Error("a lock without a token can be taken away")
		}
	})
}
