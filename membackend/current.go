package membackend

import (
	"context"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
)

var _ driver.TokenReader = (*memDriver)(nil)

// CurrentToken is one request.
func (d *memDriver) CurrentToken(ctx context.Context, name string) (locker.Token, error) {
	var token locker.Token // only for an answer that came: the request may be executed later
	if _, err := d.client.call(ctx, maxLimit, &request{run: func(now driver.Instant) {
		token = d.client.server.current(name, now)
	}}); err != nil {
		return 0, err
	}
	return token, nil
}

// current is the token of the holder; 0: nobody holds the lock.
func (s *Server) current(name string, now driver.Instant) locker.Token {
	e := s.locks[name]
	if e == nil {
		return 0
	}
	defer s.tidy(e)
	s.advance(e, now)
	if e.holder == nil {
		return 0
	}
	return e.token
}
