package reference

import (
	"time"

	"github.com/fencedlock/locker"
)

// mint returns the next fencing token. All keys share one counter, so an idle key leaves nothing
// behind. The counter is part of the data. In the dialect ClockTokens it is at least the clock in
// µs, so that tokens also rise when all data is lost.
func (s *Service) mint(_ *conn, _ *record) locker.Token {
	s.data.last++
	if s.dialect.ClockTokens {
		s.data.last = max(s.data.last, s.clock())
	}
	return s.data.last
}

func (s *Service) clock() locker.Token { return locker.Token(time.Now().Add(s.data.ahead).UnixMicro()) }
