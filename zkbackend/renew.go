package zkbackend

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/go-zookeeper/zk"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/internal/zkconn"
)

// The most nodes, and the most bytes of their paths, that are checked in one request. Both are far
// below the servers' limit (jute.maxbuffer, a megabyte).
const (
	maxChecks     = 1000
	maxCheckBytes = 256 << 10
)

// maxRefused is how many nodes that may not be read are sorted out in one renewal: each one costs a
// request, each time. The same number of nodes are looked at to which somebody has written.
const maxRefused = 10

// nodeAt is the node of the lock with that index in a call of Renew.
type nodeAt struct {
	i    int
	path string
	lock *lock
}

// Renew asks the quorum to check the nodes, many in one request, which counts as a write. Reads are
// not enough: a server that is cut off goes on answering them for a while.
func (d *zkDriver) Renew(ctx context.Context, locks []driver.Lock, report func(int, driver.Instant, error)) {
	bySession := make(map[*session][]nodeAt)
	for i, l := range locks {
		if s, path := l.(*lock).position(); path != "" {
			bySession[s] = append(bySession[s], nodeAt{i, path, l.(*lock)})
		} else {
			report(i, 0, fmt.Errorf("%w: %w", locker.ErrLost, errRemoved))
		}
	}
	var all sync.WaitGroup
	for s, renewals := range bySession {
		all.Go(func() {
			for len(renewals) > 0 {
				n := portion(renewals)
				s.renew(ctx, renewals[:n], report)
				renewals = renewals[n:]
			}
		})
	}
	all.Wait()
}

// portion is how many of renewals go into the next request.
func portion(renewals []nodeAt) int {
	bytes := 0
	for n, r := range renewals {
		if bytes += len(r.path) + 16; n > 0 && bytes > maxCheckBytes || n == maxChecks {
			return n
		}
	}
	return len(renewals)
}

// renew reports each lock. The request fails as a whole if a node is missing, has another version, or
// may not be read any more, and names the first such node; then it is repeated without that node, or
// with its version. What has another version is marked by an operator, or somebody else has written to
// it.
func (s *session) renew(ctx context.Context, renewals []nodeAt, report func(int, driver.Instant, error)) {
	renewals = slices.Clone(renewals)
	refused, rewritten := 0, 0
	for len(renewals) > 0 {
		nodes := make([]zkconn.Version, len(renewals))
		for i, r := range renewals {
			nodes[i] = zkconn.Version{Path: r.path, Version: r.lock.knownVersion()}
		}
		base, bad, err := s.check(ctx, nodes)
		switch {
		case err == nil:
			for _, r := range renewals {
				report(r.i, base, r.lock.placeErr())
			}
			return
		case bad >= 0 && errors.Is(err, zk.ErrNoNode):
			report(renewals[bad].i, 0, fmt.Errorf("%w: %w", locker.ErrLost, errRemoved))
			renewals = slices.Delete(renewals, bad, bad+1)
		case bad >= 0 && errors.Is(err, zk.ErrBadVersion) && rewritten < maxRefused:
			err := s.readOwn(renewals[bad].lock, renewals[bad].path)
			if err == nil {
				rewritten++
			} else if !zkconn.Broken(err) {
				report(renewals[bad].i, 0, err)
				renewals = slices.Delete(renewals, bad, bad+1)
			}
		case bad >= 0 && refused < maxRefused:
			refused++
			report(renewals[bad].i, 0, explain(err))
			renewals = slices.Delete(renewals, bad, bad+1)
		case errors.Is(err, zkconn.ErrExpired):
			err = fmt.Errorf("%w: %w", locker.ErrLost, err)
			fallthrough
		case !zkconn.Broken(err) || ctx.Err() != nil:
			for _, r := range renewals {
				report(r.i, 0, explain(zkconn.Overdue(err)))
			}
			return
		}
	}
}

// check asks the quorum to check that nodes exist, have these versions and may be read, and returns
// the Base of the session's leases. bad is the index of the first node for which that isn't so, or
// -1.
func (s *session) check(ctx context.Context, nodes []zkconn.Version) (base driver.Instant, bad int, err error) {
	if err := s.conn.Ready(ctx); err != nil {
		return 0, -1, err
	}
	sent, bad, err := s.conn.Check(nodes)
	if err != nil {
		return 0, bad, err
	}
	base, err = s.wrote(sent)
	return base, -1, err
}
