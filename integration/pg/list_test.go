//go:build unix

package pg

import (
	"context"
	"testing"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/integration/internal/itest"
)

// The server has a lock table for the 10,000 locks.
func TestList(t *testing.T) {
	s := itest.Started(t, "postgres", func(ctx context.Context, image string) (*Service, error) {
		return startPgWith(ctx, image, pgCounting, "max_locks_per_transaction=512")
	})
	itest.List(t, itest.ListTarget{
		Open:     func() locker.Locker { return s.open(t) },
		Requests: func() int64 { return s.requests(t) },
		ByHand: func(ctx context.Context) (n int, err error) {
			rows, err := s.nodes[0].admin.Query(ctx, "SELECT classid, objid, objsubid, pid, granted FROM "+ofLocks)
			if err != nil {
				return 0, err
			}
			for rows.Next() {
				var class, object, pid uint32
				var space int16
				var granted bool
				if err := rows.Scan(&class, &object, &space, &pid, &granted); err != nil {
					return 0, err
				}
				n++
			}
			return n, rows.Err()
		},
	})
}
