//go:build unix

package integration

import (
	"errors"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance"
)

// untimedPack is a server before 14, which keeps silent sessions for ever.
func (s *pgService) untimedPack() []conformance.Case {
	return []conformance.Case{
		{ID: "I90", Name: "server-without-ttl-says-so", Run: s.untimed,
			Why: "who relies on the TTL must find out when the program starts that this server has none"},
	}
}

func (s *pgService) untimed(t conformance.T, _ *conformance.Harness) {
	l, err := locker.Open(t.Context(), s.url, locker.SilentHolderExpires)
	if !errors.Is(err, locker.ErrGuarantee) {
		if err == nil {
			_ = l.Close()
		}
		t.Errorf("Open with SilentHolderExpires = %v, want ErrGuarantee", err)
	}
	l = keep(t, s.open(t))
	if _, err := locker.TryAcquire(t.Context(), l, lockName(t), locker.WithTTL(far)); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("TryAcquire with a TTL = %v, want ErrUnsupported", err)
	}
	lease := acquire(t, l, lockName(t))
	if deadline := lease.Deadline(); !deadline.IsZero() {
		t.Errorf("Deadline = %v, want none", deadline)
	}
	release(t, lease)
}
