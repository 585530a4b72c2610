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

// The most nodes, and the most bytes of their paths, that are checked in one request. Both are far below what the servers
// take (jute.maxbuffer, a megabyte).
const (
	maxChecks     = 1000
	maxCheckBytes = 256 << 10
)

// maxRefused is how many nodes that may not be read are sorted out in one renewal: each costs a request, each time.
const maxRefused = 10

// check is a node that is to be looked at, for the lock of that number.
type check struct {
	i    int
	path string
}

// Renew has the servers check the nodes, many in one request, which goes through the quorum as a write does. Reads
// wouldn't do: a server that is cut off goes on answering them for a while.
func (d *zkDriver) Renew(ctx context.Context, locks []driver.Lock, report func(int, driver.Instant, error)) {
	parts := make(map[*session][]check)
	for i, l := range locks {
		if s, path := l.(*lock).position(); path != "" {
			parts[s] = append(parts[s], check{i, path})
		} else {
			report(i, 0, fmt.Errorf("%w: %w", locker.ErrLost, errRemoved))
		}
	}
	var all sync.WaitGroup
	for s, checks := range parts {
		all.Go(func() {
			for len(checks) > 0 {
				n := portion(checks)
				s.renew(ctx, checks[:n], report)
				checks = checks[n:]
			}
		})
	}
	all.Wait()
}

// portion is how many of checks go into the next request.
func portion(checks []check) int {
	bytes := 0
	for n, c := range checks {
		if bytes += len(c.path) + 16; n > 0 && bytes > maxCheckBytes || n == maxChecks {
			return n
		}
	}
	return len(checks)
}

// renew reports each lock. The request fails as a whole when a node is missing, or may not be read any more, and names the first
// such; then it is repeated without that one.
func (s *session) renew(ctx context.Context, checks []check, report func(int, driver.Instant, error)) {
	checks = slices.Clone(checks)
	refused := 0
	for len(checks) > 0 {
		base, bad, err := s.checkAll(ctx, checks)
		switch {
		case err == nil:
			for _, c := range checks {
				report(c.i, base, nil)
			}
			return
		case bad >= 0 && errors.Is(err, zk.ErrNoNode):
			report(checks[bad].i, 0, fmt.Errorf("%w: %w", locker.ErrLost, errRemoved))
			checks = slices.Delete(checks, bad, bad+1)
		case bad >= 0 && refused < maxRefused:
			refused++
			report(checks[bad].i, 0, explain(err))
			checks = slices.Delete(checks, bad, bad+1)
		case errors.Is(err, errExpired):
			err = fmt.Errorf("%w: %w", locker.ErrLost, err)
			fallthrough
		case !broken(err) || ctx.Err() != nil:
			for _, c := range checks {
				report(c.i, 0, explain(zkconn.Overdue(err)))
			}
			return
		}
	}
}

// checkAll is one request. bad is the number of the node that it has failed for, or -1.
func (s *session) checkAll(ctx context.Context, checks []check) (base driver.Instant, bad int, err error) {
	if err := s.ready(ctx); err != nil {
		return 0, -1, err
	}
	ops := make([]any, len(checks))
	for i, c := range checks {
		ops[i] = &zk.CheckVersionRequest{Path: c.path, Version: -1} // any
	}
	sent := driver.Stamp()
	results, err := s.conn.Multi(ops...)
	if broken(err) { // nothing was made or removed, whether it arrived or not
		return 0, -1, err
	}
	s.noteWrite(sent, true)
	if err != nil { // those before it have none, those behind it another one
		return 0, slices.IndexFunc(results, func(r zk.MultiResponse) bool { return r.Error != nil }), err
	}
	base, err = s.wrote(sent)
	return base, -1, err
}
