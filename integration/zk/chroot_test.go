//go:build unix

package zk

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance/step"
	"github.com/fencedlock/locker/integration/internal/itest"
)

// An operator repeatedly deletes the chroot while Lockers are opened. If an opening fails, its error says
// that the node isn't there, and not that the addresses lead to different ensembles. (An opening may also
// run out of time, because it compares the addresses again after each deletion.) Lockers that are open
// create the chroot again.
func TestZkChrootIsDeletedWhileOpening(t *testing.T) {
	itest.NeedServers(t)
	s, root := Ensemble(t), "/"+step.LockName(t)
	early, err := s.try(t, s.Addrs(), root)
	if err != nil {
		t.Fatalf("New = %v", err)
	}
	step.CloseAtEnd(t, early)

	var took atomic.Int64 // by the last opening, so that one may fit between two deletions
	remove := func(ctx context.Context) (was bool, err error) {
		err = s.ask(ctx, func() error { return s.admin.Delete(root, -1) })
		if errors.Is(err, zk.ErrNoNode) {
			return false, nil
		}
		return err == nil, err
	}
	deleted := 0
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	all.Go(func() {
		for {
			switch was, err := remove(ctx); {
			case was:
				deleted++
			case err != nil && ctx.Err() == nil:
				t.Errorf("Delete = %v", err)
				return
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(rand.N(time.Duration(5*took.Load()) + time.Millisecond)):
			}
		}
	})
	opened := 0
	for began := time.Now(); time.Since(began) < itest.ShortWait || opened == 0 && time.Since(began) < step.Limit; {
		opening := time.Now()
		l, err := s.try(t, s.Addrs(), root)
		took.Store(int64(time.Since(opening)))
		switch {
		case err == nil:
			opened++
			step.Close(t, l)
		case !errors.Is(err, zk.ErrNoNode) && !errors.Is(err, locker.ErrNoAnswer):
			t.Errorf("New = %v, want a Locker, or that the chroot isn't there", err)
		}
	}
	cancel()
	all.Wait()
	t.Logf("%d Lockers were opened while the chroot was deleted %d times", opened, deleted)
	if opened == 0 || deleted == 0 {
		t.Error("this test proves nothing")
	}
	last, err := s.try(t, s.Addrs(), root)
	if err != nil {
		t.Fatalf("New = %v", err)
	}
	step.CloseAtEnd(t, last)
	itest.Must(t, func(ctx context.Context) error { _, err := remove(ctx); return err })
	itest.HandOver(t, early, last, step.LockName(t))
}
