package zkbackend

import (
	"context"

	"github.com/go-zookeeper/zk"

	"github.com/fencedlock/locker/driver/kit"
	"github.com/fencedlock/locker/internal/zkconn"
)

// catchUp makes later reads on this session see every earlier write, including its own. A write
// does that: the quorum must agree, so the server that answers it is not cut off and has applied
// all that came earlier; and a server to which the session moves later doesn't accept the session
// unless it knows as much. A server that is only asked to sync may be cut off and not know it; and a
// leader answers its own clients' sync without the writes that it has yet to apply. The write is a
// check of the lock's node, which changes nothing; if that node is missing, the quorum says so.
//
// Callers that come while a request is under way share the next one: a caller that looks at many
// locks or slots at the same time costs the quorum two writes, and not one for each.
func (d lockDir) catchUp(ctx context.Context) error {
	missing, err := d.s.catchUps.Do(ctx, d.path)
	switch {
	case err == nil:
		return missing
	case ctx.Err() != nil: // often a limit of our own; if the caller gave up, the engine knows
		return d.s.conn.Unanswered()
	}
	return err
}

// catchUps are the requests of catchUp: at most one is under way. A reply is the error of that node.
type catchUps = kit.Lanes[string, error]

func newCatchUps(s *session) *catchUps {
	return kit.NewLanes(s.checkDirs, kit.LaneOptions{Width: 1, Size: maxCatchUps, Limit: acquireLimit})
}

// maxCatchUps is how many nodes are checked in one request, at most: see maxChecks. A lock's node has a
// shorter path than the nodes below it.
const maxCatchUps = maxChecks / 2

func (s *session) checkDirs(ctx context.Context, paths []string) ([]error, error) {
	nodes := make([]zkconn.Version, len(paths))
	for i, path := range paths {
		nodes[i] = zkconn.Version{Path: path, Version: zkconn.AnyVersion}
	}
	replies := make([]error, len(paths))
	_, bad, err := s.check(ctx, nodes)
	switch {
	case bad < 0:
		return replies, err
	case s.conn.IsOver(): // as in wrote: an answer proves nothing any more
		return nil, zk.ErrClosing
	}
	for i, path := range paths { // the quorum has answered, so the others have caught up
		if path == paths[bad] {
			replies[i] = err
		}
	}
	return replies, nil
}
