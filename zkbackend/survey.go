package zkbackend

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fencedlock/locker/internal/zkconn"
)

var errMixed = errors.New("the addresses lead to different ensembles")

// surveyLimit is how long opening waits for the other addresses; half of the time that is left, if
// that is less.
const surveyLimit = time.Second

// survey finds out whether all addresses are of the session's own ensemble: whether the chroot has the
// same origin there, which is own. An address that doesn't answer may be down. (The chroot is never the
// root, whose creation is the same everywhere: see checkChroot.)
func (d *zkDriver) survey(ctx context.Context, s *session, own zkconn.Origin) error {
	for {
		limit := surveyLimit
		if until, limited := ctx.Deadline(); limited {
			limit = min(limit, time.Until(until)/2)
		}
		at, foreign := s.conn.Foreign(ctx, limit, d.chroot.path, own)
		if foreign == "" {
			return ctx.Err()
		}
		// Somebody may have deleted the chroot, and created it again, since it was read.
		present, err := zkconn.Within(ctx, s.conn, s.inspect)
		switch {
		case err != nil:
			return err
		case present.root == own:
			return fmt.Errorf("%w: %s and %s", errMixed, at, foreign)
		}
		own = present.root
	}
}
