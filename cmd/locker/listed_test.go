package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/membackend"
)

// lister is a Locker whose service shows some locks, and then can't tell more, for some reason.
type lister struct {
	locker.Locker
	locks []locker.Status
	err   error
}

func (l *lister) Inspect(context.Context, string, locker.Look) (locker.Status, error) {
	return locker.Status{}, nil
}

func (l *lister) List(context.Context, string, int) iter.Seq2[locker.Status, error] {
	return func(yield func(locker.Status, error) bool) {
		for _, s := range l.locks {
			if !yield(s, nil) {
				return
			}
		}
		if l.err != nil {
			yield(locker.Status{}, &locker.Error{Op: "list", Backend: "postgres", Name: "pool", Err: l.err})
		}
	}
}

var errNameless = fmt.Errorf("%w by the beginning of its name: for 1 locks nobody has written the name", locker.ErrNoInspector)

func listerOf(t *testing.T, err error, locks ...locker.Status) *lister {
	t.Helper()
	l := &lister{Locker: membackend.New(), locks: locks, err: err}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func permit(slot int, holder *locker.Party) locker.Status {
	return locker.Status{Name: "pool", Slot: slot, Key: fmt.Sprint(slot), Holder: holder}
}

// command has its output and its error output in a buffer each.
func command() (cmd *cobra.Command, out, errOut *bytes.Buffer) {
	cmd, out, errOut = new(cobra.Command), new(bytes.Buffer), new(bytes.Buffer)
	cmd.SetOut(out)
	cmd.SetErr(errOut)
	return cmd, out, errOut
}

// Where the names of some locks aren't known, the others are listed, and a warning says that there
// may be more. What isn't there may be among those that are left out, so it isn't called free.
func TestListThatLeavesLocksOut(t *testing.T) {
	held, line := permit(1, &locker.Party{Token: 7, Holder: "web"}), permit(locker.LineSlot, nil)
	for _, test := range []struct {
		name         string
		locks        []locker.Status
		check        bool
		ls, show     int // exit codes
		listed       bool
		warned       bool
		err          error
		showContains string
	}{
		{"one is known", []locker.Status{held}, false, 0, 0, true, true, errNameless, "pool on mem: 1 permit held"},
		{"one is known, with --check", []locker.Status{held}, true, exitChecked, 0, true, true, errNameless, "pool, permit 1 on mem"},
		{"nobody is known to hold one, with --check", []locker.Status{line}, true, exitChecked, exitUsage, true, true, errNameless, "0 permits held"},
		{"another name is known", []locker.Status{{Name: "pool, 2", Key: "2", Holder: &locker.Party{Token: 8}}}, false, 0, exitUsage, true, true, errNameless, ""},
		{"none is known", nil, false, exitUsage, exitUsage, false, false, errNameless, ""},
		{"all are known, with --check", []locker.Status{line}, true, exitChecked, exitChecked, true, false, nil, "0 permits held"},
		{"the service fails", []locker.Status{held}, false, exitService, exitService, false, false, errors.New("no answer"), ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			l := listerOf(t, test.err, test.locks...)
			cmd, out, errOut := command()
			o := lsOptions{format: "text", sort: "name", check: test.check}
			if code := report(errOut, o.list(t.Context(), cmd, l, "pool")); code != test.ls || strings.Contains(out.String(), "pool, ") != test.listed {
				t.Errorf("ls: code %d, %q, want %d, and the locks: %v", code, out, test.ls, test.listed)
			}
			if got := strings.Count(errOut.String(), "locker: not all locks are listed: unsupported"); (got == 1) != (test.warned && test.ls != exitUsage) || got > 1 {
				t.Errorf("ls warns %d times: %q", got, errOut)
			}
			errOut.Reset()
			text, held, leftOut, err := showPermits(t.Context(), l, "pool", locker.Look{}, false)
			var code int
			if err != nil {
				code = report(errOut, lockFailure(err))
			} else {
				code = report(errOut, answer(cmd, leftOut, test.check, held, 0, exitChecked))
			}
			if code != test.show || !strings.Contains(text, test.showContains) {
				t.Errorf("show --permits: code %d, %q, want %d and %q", code, text, test.show, test.showContains)
			}
			if got := strings.Count(errOut.String(), "not all locks are listed"); test.warned != (got == 1) || got > 1 {
				t.Errorf("show --permits warns %d times: %q", got, errOut)
			}
		})
	}
}

// A filter that lets no lock through says nothing of the locks that are left out.
func TestCheckOfAListThatLeavesLocksOut(t *testing.T) {
	l := listerOf(t, errNameless, permit(1, &locker.Party{Token: 7, Holder: "web", Since: time.Now()}))
	for _, o := range []lsOptions{{holder: "db"}, {heldLonger: time.Hour}} {
		o.format, o.sort, o.check = "text", "name", true
		cmd, _, errOut := command()
		if code := report(errOut, o.list(t.Context(), cmd, l, "pool")); code != exitUsage || !strings.Contains(errOut.String(), "not all locks are listed") {
			t.Errorf("%+v: code %d, %q, want %d and why", o, code, errOut, exitUsage)
		}
	}
}

// The page and the screen show what is known as well.
func TestScreensThatLeaveLocksOut(t *testing.T) {
	l := listerOf(t, errNameless, permit(1, &locker.Party{Token: 7}))
	locks, note, err := uiLocks(t.Context(), l, "pool")
	if err != nil || len(locks) != 1 || !strings.HasPrefix(note, "not all locks are listed: ") {
		t.Errorf("ui: %v, %q, %v, want one lock and a note", locks, note, err)
	}
	rows, note, err := topRows(t.Context(), l, "pool")
	if err != nil || len(rows) != 1 || !strings.HasPrefix(note, "not all locks are listed: ") {
		t.Errorf("top: %v, %q, %v, want one lock and a note", rows, note, err)
	}
	l.locks = nil // a picture from before would show locks that are free now
	if locks, note, err := uiLocks(t.Context(), l, "pool"); err != nil || len(locks) != 0 || !strings.HasPrefix(note, "not all locks are listed: ") {
		t.Errorf("ui without a lock: %v, %q, %v, want a note", locks, note, err)
	}
	if rows, note, err := topRows(t.Context(), l, "pool"); err != nil || len(rows) != 0 || !strings.HasPrefix(note, "not all locks are listed: ") {
		t.Errorf("top without a lock: %v, %q, %v, want a note", rows, note, err)
	}
	l.err = errors.New("no answer")
	if _, _, err := uiLocks(t.Context(), l, "pool"); err == nil {
		t.Error("ui of a service that fails: no error")
	}
}

// A lock that is only renewed is the same in each look, also on Redlock, where some have a lock on a
// minority of the servers.
func TestRenewedLocksStayTheSame(t *testing.T) {
	look := func(left time.Duration) string {
		l := listerOf(t, nil, locker.Status{Name: "a", Key: "k", Waiting: 1, Holder: &locker.Party{Token: 7, ExpiresIn: left},
			Partial: []locker.Party{{Owner: "0d", Token: 8, ExpiresIn: left}}})
		locks, _, err := uiLocks(t.Context(), l, "")
		if err != nil || len(locks) != 1 {
			t.Fatalf("%d locks, %v", len(locks), err)
		}
		return string(locks[0].JSON)
	}
	if one, other := look(9*time.Second), look(8*time.Second); one != other {
		t.Errorf("a second later %s is %s", one, other)
	}
}
