package membackend

import (
	"context"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
)

var _ driver.Breaker = (*memDriver)(nil)

// Break is one request.
func (d *memDriver) Break(
	ctx context.Context, name string, token locker.Token, breach locker.Breach,
) (locker.Effect, error) {
	var within time.Duration // only for an answer that came, as in CurrentToken
	var found bool
	if _, err := d.client.call(ctx, maxLimit, &request{run: func(now driver.Instant) {
		within, found = d.client.server.takeAway(keyOf(name, breach.Slot), token, breach, now)
	}}); err != nil {
		return locker.Effect{}, err
	}
	if !found {
		return locker.Effect{}, locker.ErrNotHolder
	}
	return locker.Effect{Within: within}, nil
}

// takeAway ends the lease with this token: now, or by a mark, which ends its renewals. It returns
// how long the lease lasts unless it is released, and whether it is the holder's.
func (s *Server) takeAway(
	key string, token locker.Token, breach locker.Breach, now driver.Instant,
) (within time.Duration, found bool) {
	e := s.locks[key]
	if e == nil {
		return 0, false
	}
	defer s.tidy(e)
	s.advance(e, now)
	a := e.holder
	switch {
	case a == nil || e.token != token:
		return 0, false
	case breach.AtOnce:
		s.entomb(e, a, &breach, now) // for a holder that is not reached by the push
		s.revoke(e, driver.Broken(breach))
		s.advance(e, now)
		return 0, true
	case e.breach == nil:
		e.breach = &breach
		a.client.push(func() { a.to.broken(breach) })
	}
	return e.expires.Sub(now), true
}

// broken processes the push of a service that has marked the lease. The lock is still held, so it
// must be released.
func (l *lock) broken(breach locker.Breach) { l.reportLost(driver.Broken(breach)) }

// over is the error of an answer that the acquisition has no lock or place any more, or not for
// long.
func (l *lock) over(a answer) error {
	if a.state == gone {
		l.clearMayExist()
	}
	if a.breach != nil {
		return driver.Broken(*a.breach)
	}
	return errOver
}
