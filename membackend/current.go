package membackend

import (
	"context"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
)

var _ driver.TokenReader = (*memDriver)(nil)

// CurrentToken is one request.
func (d *memDriver) CurrentToken(ctx context.Context, name string, slot int) (locker.Token, error) {
	var token locker.Token // only for an answer that came: the request may be executed later
	if _, err := d.client.call(ctx, maxLimit, &request{run: func(now driver.Instant) {
		token = d.client.server.current(keyOf(name, slot), now)
	}}); err != nil {
		return 0, err
	}
	return token, nil
}

// current is the token of the holder; 0: nobody holds the lock. It doesn't advance the queue, as inspect
// doesn't.
func (s *Server) current(key string, now driver.Instant) locker.Token {
	e := s.locks[key]
	if e == nil || e.holder == nil || now >= e.expires {
		return 0
	}
	return e.token
}
