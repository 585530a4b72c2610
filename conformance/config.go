package conformance

import (
	"context"
	"errors"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance/step"
)

var configCases = []Case{
	{ID: "H61", Name: "bad-url-fails-clearly-and-in-time", Run: badURLs, Hooks: []Hook{HookBadURLs},
		Why: "a mistake in the configuration must be found when the program starts, with an error " +
			"that may be logged"},
	{ID: "H62", Name: "open-refuses-what-it-doesnt-know", Run: openRefuses, Hooks: []Hook{HookURL},
		Why: "otherwise a misspelt parameter that is ignored, or a guarantee that is missing, is " +
			"found in production"},
	{ID: "H63", Name: "url-is-all-that-changes", Run: byURL, Hooks: []Hook{HookURL},
		Why: "a program chooses its backend by a URL and keeps its code"},
}

// opening is the longest time until opening a URL that can't work fails.
const opening = 20 * time.Second

// badURLs also tries to acquire a lock, for backends that connect at the first acquisition.
func badURLs(t T, h *Harness) {
	for _, what := range slices.Sorted(maps.Keys(h.BadURLs)) {
		err := step.MustReturn(t, opening+h.Slack, "Open with a bad URL", func() error {
			ctx, cancel := context.WithTimeout(t.Context(), opening)
			defer cancel()
			l, err := locker.Open(ctx, h.BadURLs[what])
			if err != nil {
				return err
			}
			defer l.Close()
			lease, err := locker.TryAcquire(ctx, l, step.LockName(t))
			if err == nil {
				_ = lease.Release(ctx)
			}
			return err
		})
		t.Logf("%s: %v", what, err)
		if err == nil || errors.Is(err, locker.ErrHeld) {
			t.Errorf("with a bad URL (%s): %v, want an error that is not ErrHeld", what, err)
			continue
		}
		var e *locker.Error
		if !errors.As(err, &e) {
			t.Errorf("with a bad URL (%s): %#v, want a *locker.Error", what, err)
		}
		for _, secret := range h.secrets(what) {
			if strings.Contains(err.Error(), secret) {
				t.Errorf("with a bad URL (%s) the error shows a secret: %v", what, err)
			}
		}
	}
}

// secrets are what the error for a URL must not contain: the URL itself, its password, and what the
// harness names.
func (h *Harness) secrets(what string) []string {
	raw := h.BadURLs[what]
	secrets := append([]string{raw}, h.Secrets...)
	if u, err := url.Parse(raw); err == nil && u.User != nil {
		if password, ok := u.User.Password(); ok {
			secrets = append(secrets, password)
		}
	}
	return slices.DeleteFunc(secrets, func(s string) bool { return s == "" })
}

// never is a requirement that no backend meets.
type never struct{}

func (never) Check(locker.Guarantees) error { return errors.New("flying to the moon") }

func openRefuses(t T, h *Harness) {
	ctx, cancel := context.WithTimeout(t.Context(), opening)
	defer cancel()
	u, err := url.Parse(h.URL)
	if err != nil {
		t.Fatalf("the harness's URL can't be parsed")
	}
	query := u.Query()
	query.Set("no_such_parameter", "1")
	u.RawQuery = query.Encode()
	if l, err := locker.Open(ctx, u.String()); err == nil {
		t.Errorf("Open with an unknown parameter gave a Locker")
		_ = l.Close()
	} else if !errors.Is(err, locker.ErrOption) || !strings.Contains(err.Error(), "no_such_parameter") {
		t.Errorf("Open with an unknown parameter = %v, want ErrOption and the parameter's name", err)
	}

	if l, err := locker.Open(ctx, h.URL, never{}); err == nil {
		t.Errorf("Open with a requirement that isn't met gave a Locker")
		_ = l.Close()
	} else if !errors.Is(err, locker.ErrGuarantee) || !strings.Contains(err.Error(), "flying to the moon") {
		t.Errorf("Open with a requirement that isn't met = %v, want ErrGuarantee and what is missing", err)
	}

	l, err := locker.Open(ctx, h.URL, h.guarantees.Scope, h.guarantees.Fencing, h.guarantees.Order)
	if err != nil {
		t.Fatalf("Open with requirements that are met = %v, want nil; a field of Guarantees that isn't stated "+
			"meets none, see case M1", err)
	}
	step.CloseAtEnd(t, l)
	step.WantFree(t, l, step.LockName(t))
}

// byURL runs the core of the suite on Lockers that were opened by their URL.
func byURL(t T, h *Harness) {
	own := *h
	own.Open = func(t T) locker.Locker {
		t.Helper()
		l, err := locker.Open(t.Context(), h.URL)
		if err != nil {
			t.Fatalf("Open = %v", err)
		}
		return l
	}
	own.Hooks, own.Strict = Hooks{}, false
	if g := own.OpenLocker(t).Guarantees(); g != h.guarantees {
		t.Errorf("opened by its URL, the backend promises\n%v, and otherwise\n%v", g, h.guarantees)
	}
	for _, c := range coreCases {
		if c.plan(t, &own).Verdict == 0 && !t.Failed() {
			t.Logf("%v", c)
			c.Run(t, &own)
		}
	}
}
