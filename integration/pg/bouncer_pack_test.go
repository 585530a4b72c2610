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

// bouncerPack tests PgBouncer in the modes in which another client would get the session that holds
// a lock.
func (s *Service) bouncerPack() []conformance.Case {
	return []conformance.Case{
		{ID: "I70", Name: "pools-without-sessions-are-refused", Run: s.sessionless,
			Why: "in transaction mode two statements may run in two sessions of the server, so " +
				"the next client of a session holds the lock, and nobody releases it"},
		{ID: "I71", Name: "pools-without-sessions-are-refused-under-load", Run: s.sessionlessBusy,
			Why: "a pool may by chance give the same session twice, whether it is busy or not; " +
				"transaction mode must be detected all the same"},
	}
}

func (s *Service) sessionless(t conformance.T, _ *conformance.Harness) {
	for _, database := range []string{transactionMode, statementMode, oneConnection} {
		for range 5 {
			itest.RefusedAtOpen(t, itest.Changed(s.URL, func(u *url.URL) { u.Path = "/" + database }), "session mode")
		}
	}
	step.FreeWithin(t, itest.ShortWait, step.CloseAtEnd(t, s.open(t)), step.LockName(t))
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
