//go:build unix

package pg

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance"
	"github.com/fencedlock/locker/conformance/step"
)

// txContention adds to a number by a read and a write.
func (s *Service) txContention(t conformance.T, _ *conformance.Harness) {
	s.exec(t, "create table work (n int, token int8)", "grant all on work to public", "insert into work values (0, 0)")
	t.Cleanup(func() { s.exec(t, "drop table work") })
	pool, name := s.txPool(t), step.LockName(t)
	lockers := []locker.Locker{step.CloseAtEnd(t, s.open(t)), step.CloseAtEnd(t, s.open(t)), step.CloseAtEnd(t, s.open(t))}
	const contenders, sections = 6, 20
	problems := make([]error, contenders)
	ctx, cancel := context.WithTimeout(t.Context(), step.Limit)
	defer cancel()
	var all sync.WaitGroup
	for i := range contenders {
		all.Go(func() {
			for range sections {
				problems[i] = errors.Join(problems[i], pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
					return addInTx(ctx, lockers[i%len(lockers)], tx, name)
				}))
			}
		})
	}
	all.Wait()
	if err := errors.Join(problems...); err != nil {
		t.Fatalf("%v", err)
	}
	if n := admin[int](t, s, "select n from work"); n != contenders*sections {
		t.Errorf("%d additions of one make %d", contenders*sections, n)
	}
}

// addInTx reads and writes in two steps, and fails if its token is not larger than the token of the one
// before.
func addInTx(ctx context.Context, l locker.Locker, tx pgx.Tx, name string) error {
	token, err := concrete(l).LockTx(ctx, tx, name)
	if err != nil {
		return err
	}
	var n int
	var before locker.Token
	if err := tx.QueryRow(ctx, "select n, token from work").Scan(&n, &before); err != nil {
		return err
	}
	if token <= before {
		return fmt.Errorf("token %v after %v", token, before)
	}
	time.Sleep(time.Millisecond) // so that another would come between
	_, err = tx.Exec(ctx, "update work set n = $1, token = $2", n+1, int64(token))
	return err
}

func (s *Service) txSnapshot(t conformance.T, _ *conformance.Harness) {
	pool, l, name := s.txPool(t), step.CloseAtEnd(t, s.open(t)), step.LockName(t)
	for level, refused := range map[pgx.TxIsoLevel]bool{
		pgx.ReadUncommitted: false, pgx.ReadCommitted: false, pgx.RepeatableRead: true, pgx.Serializable: true,
	} {
		tx := beginAt(t, pool, level)
		_, err := concrete(l).TryLockTx(t.Context(), tx, name)
		if errors.Is(err, errors.ErrUnsupported) != refused || err != nil != refused {
			t.Errorf("TryLockTx at the level %s = %v, want that it is refused: %v", level, err, refused)
		}
		if refused {
			step.FreeWithin(t, 0, l, name)
		}
		if err := tx.Rollback(t.Context()); err != nil {
			t.Errorf("Rollback = %v, want nil", err)
		}
	}
}
