//go:build unix

package pg

import (
	"errors"
	"net/url"
	"sync"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance"
	"github.com/fencedlock/locker/conformance/step"
	"github.com/fencedlock/locker/integration/internal/itest"
	"github.com/fencedlock/locker/pgbackend"
)

// bouncerPack is PgBouncer in ways in which a session lock would be left with somebody else.
func (s *Service) bouncerPack() []conformance.Case {
	return []conformance.Case{
		{ID: "I70", Name: "pools-without-sessions-are-refused", Run: s.sessionless,
			Why: "in transaction mode two statements reach two servers' sessions, so a lock is held by whoever comes next, and released by nobody"},
		{ID: "I71", Name: "pools-without-sessions-are-refused-under-load", Run: s.sessionlessBusy,
			Why: "a pool that is busy, or that isn't, may by chance give the same session twice, and must be found out all the same"},
	}
}

func (s *Service) sessionless(t conformance.T, _ *conformance.Harness) {
	for _, database := range []string{transactionMode, statementMode, oneConnection} {
		for range 5 {
			itest.RefusedAtOpen(t, itest.Changed(s.URL, func(u *url.URL) { u.Path = "/" + database }), "session mode")
		}
	}
	step.FreeWithin(t, itest.Soon, step.CloseAtEnd(t, s.open(t)), step.LockName(t))
	if left := s.residue(t); left != "" {
		t.Errorf("left on the server: %s", left)
	}
}

// sessionlessBusy opens many at the same time, with and without transactions of others in between.
func (s *Service) sessionlessBusy(t conformance.T, _ *conformance.Harness) {
	rawURL := itest.Changed(s.URL, func(u *url.URL) { u.Path = "/" + transactionMode })
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() {
			l, err := locker.Open(t.Context(), rawURL)
			if err == nil {
				_ = l.Close()
			}
			if !errors.Is(err, pgbackend.ErrPooler) {
				t.Errorf("Open through a pool in transaction mode = %v, want ErrPooler", err)
			}
		})
	}
	all.Wait()
}
