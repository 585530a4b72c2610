//go:build unix

package pg

import (
	"context"
	"strconv"
	"testing"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance/step"
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

// A session is a Locker's if it has a presence lock for itself. One that has another one's in shared
// mode, as a Locker has for a moment that finds out whether a session is over, isn't.
func TestPostgresListWithAStranger(t *testing.T) {
	itest.NeedServers(t)
	s := pgSmall(t)
	s.clear(t)
	l := step.CloseAtEnd(t, s.open(t))
	lease := step.Acquire(t, l, step.LockName(t))
	stranger, err := s.txPool(t).Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stranger.Release)
	const key = 712_000_000_000
	if _, err := stranger.Exec(t.Context(), "select pg_advisory_lock($1), pg_advisory_lock_shared(1819239275, -7)", int64(key)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_, _ = stranger.Exec(context.WithoutCancel(t.Context()), "select pg_advisory_unlock_all()")
	})
	isListed := false
	for status, err := range locker.List(t.Context(), l, "", 0) {
		if err != nil {
			t.Fatal(err)
		}
		isListed = isListed || status.Name == lease.Name()
		if status.Key == strconv.Itoa(key) {
			t.Errorf("List shows the stranger's lock: %+v", status)
		}
	}
	if !isListed {
		t.Errorf("List doesn't show %q", lease.Name())
	}
	step.Release(t, lease)
}
