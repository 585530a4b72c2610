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
)

// The most nodes, and the most bytes of their paths, that are checked in one request. Both are far below what the servers
// take (jute.maxbuffer, a megabyte).
const (
	maxChecks     = 1000
	maxCheckBytes = 256 << 10
)

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

// renew reports each lock. The request fails as a whole when a node is missing, and names the first such; then it is
// repeated without that one.
func (s *session) renew(ctx context.Context, checks []check, report func(int, driver.Instant, error)) {
	checks = slices.Clone(checks)
	for len(checks) > 0 {
		base, missing, err := s.checkAll(ctx, checks)
		switch {
		case err == nil:
			for _, c := range checks {
				report(c.i, base, nil)
			}
			return
		case missing >= 0:
			report(checks[missing].i, 0, fmt.Errorf("%w: %w", locker.ErrLost, errRemoved))
			checks = slices.Delete(checks, missing, missing+1)
		case errors.Is(err, errExpired):
			err = fmt.Errorf("%w: %w", locker.ErrLost, err)
			fallthrough
		case !broken(err) || ctx.Err() != nil:
			for _, c := range checks {
				report(c.i, 0, overdue(err))
			}
			return
		}
	}
}

// checkAll is one request. missing is the number of the first node that isn't there, or -1.
func (s *session) checkAll(ctx context.Context, checks []check) (base driver.Instant, missing int, err error) {
	if err := s.ready(ctx); err != nil {
		return 0, -1, err
	}
	ops := make([]any, len(checks))
	for i, c := range checks {
		ops[i] = &zk.CheckVersionRequest{Path: c.path, Version: -1} // any
	}
	sent := driver.Now()
	results, err := s.conn.Multi(ops...)
	if err != nil {
		missing = slices.IndexFunc(results, func(r zk.MultiResponse) bool { return errors.Is(r.Error, zk.ErrNoNode) })
		return 0, missing, err
	}
	return s.wrote(sent), -1, nil
}
