package pgbackend

import (
	"errors"
	"fmt"

	"github.com/fencedlock/locker/internal/pgsession"
)

// oldest is the first version that is supported. Before it there is no idle_session_timeout: TCP alone would end the session of a
// holder that is cut off, and the holder could not know when.
const oldest = 140000

// checkServer refuses a server that can't be used. It is called for each connection, because a later one may lead elsewhere.
func checkServer(s pgsession.Server) error {
	switch {
	case s.Version < oldest:
		return fmt.Errorf("%w: the server is Postgres %d, and locks need %d or later", errors.ErrUnsupported, s.Version/10000, oldest/10000)
	case s.Standby:
		return errors.New("the server is a standby, which takes no writes; locks are made on the primary (target_session_attrs=read-write finds it)")
	case s.ReadOnly:
		return errors.New("the server takes no writes here: default_transaction_read_only is on for the server, the database or the role")
	}
	return nil
}
