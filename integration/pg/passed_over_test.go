//go:build unix

package pg

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance/proxy"
	"github.com/fencedlock/locker/conformance/step"
	"github.com/fencedlock/locker/integration/internal/itest"
	"github.com/fencedlock/locker/pgbackend"
)

// Something between drops what is sent on one connection, with a lease on it, and new connections work.
// Then only the first request waits for an answer.
func TestPostgresSilentConnection(t *testing.T) {
	itest.NeedServers(t)
	t.Parallel()
	s := taken(t)
	var network atomic.Pointer[proxy.Network]
	first, second := proxy.Start(t), proxy.Start(t)
	network.Store(first)
	opened := s.dialled(t, func(ctx context.Context, kind, addr string) (net.Conn, error) {
		return network.Load().Dial(ctx, kind, addr)
	})
	l, other := step.CloseAtEnd(t, opened), step.CloseAtEnd(t, s.open(t))
	mine := step.Acquire(t, l, step.LockName(t)) // for 30 s
	held := step.LockName(t)
	theirs := step.Acquire(t, other, held, locker.WithTTL(itest.LongTTL))
	network.Store(second)
	first.Cut()
	began := time.Now()

	lost := step.LockName(t)
	if err := step.WantFailure(t, itest.ShortWait, l, lost); !errors.Is(err, locker.ErrNoAnswer) {
		t.Errorf("Acquire on a silent connection = %v, want ErrNoAnswer", err)
	}
	free := step.LockName(t)
	for i := range 10 {
		step.FreeWithin(t, itest.ShortWait, l, fmt.Sprint(free, "-", i))
	}
	limited, cancel := context.WithTimeout(t.Context(), itest.ShortWait)
	defer cancel()
	if status, err := locker.Inspect(limited, l, mine.Name(), locker.Look{}); err != nil || status.Holder == nil {
		t.Errorf("Inspect = %+v, %v, want the holder", status, err)
	}
	for _, err := range locker.List(limited, l, "", 0) {
		if err != nil {
			t.Errorf("List = %v, want nil", err)
		}
	}
	pg, _ := locker.AsLocker[*pgbackend.Locker](l)
	tx := begin(t, s.txPool(t))
	if _, err := pg.LockTx(limited, tx, step.LockName(t)); err != nil {
		t.Errorf("LockTx = %v, want a token", err)
	}
	_ = tx.Rollback(limited)
	waiter := step.StartAcquire(t, l, held)
	step.Eventually(t, itest.ShortWait, func() error { return s.queued(t, held, 1) })
	waiter.Cancel(nil)
	step.Eventually(t, itest.ShortWait, func() error { return s.queued(t, held, 0) })
	step.WantHeld(t, l, mine.Name())
	if took := time.Since(began); took > 20*time.Second || mine.Err() != nil {
		t.Errorf("all of it took %v, and the lease on the silent connection: %v, want nil", took, mine.Err())
	}

	first.Heal() // what was sent meanwhile comes late
	time.Sleep(time.Until(began.Add(35 * time.Second)))
	if err := mine.Err(); err != nil {
		t.Errorf("the lease on a connection that was silent for a while: %v, want nil", err)
	}
	step.Release(t, mine)
	step.Release(t, theirs)
	for _, name := range []string{lost, held, mine.Name()} {
		step.FreeWithin(t, itest.ShortWait, other, name)
		step.FreeWithin(t, itest.ShortWait, l, name)
	}
	if n := s.heldLocks(t); n != 0 {
		t.Errorf("%d locks are held, want none", n)
	}
}
