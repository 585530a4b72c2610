//go:build unix

package zk

import (
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/fencedlock/locker/conformance/step"
	"github.com/fencedlock/locker/integration/internal/itest"
)

// An operator deletes the chroot again and again while Lockers are opened. An opening that fails says that
// the node isn't there, and not that the addresses lead to different ensembles. Lockers that are open create
// the chroot again.
func TestZkChrootIsDeletedWhileOpening(t *testing.T) {
	itest.NeedServers(t)
	s, root := Ensemble(t), "/"+step.LockName(t)
	early, err := s.try(t, s.Addrs(), root)
	if err != nil {
		t.Fatalf("New = %v", err)
	}
	step.CloseAtEnd(t, early)

	end, deleted := make(chan struct{}), 0
	var all sync.WaitGroup
	all.Go(func() {
		for {
			switch err := s.admin.Delete(root, -1); {
			case err == nil:
				deleted++
			case !errors.Is(err, zk.ErrNoNode):
				t.Errorf("Delete = %v", err)
				return
			}
			select {
			case <-end:
				return
			case <-time.After(rand.N(200 * time.Millisecond)):
			}
		}
	})
	opened := 0
	for began := time.Now(); time.Since(began) < itest.ShortWait; {
		l, err := s.try(t, s.Addrs(), root)
		switch {
		case err == nil:
			opened++
			step.Close(t, l)
		case !errors.Is(err, zk.ErrNoNode):
			t.Errorf("New = %v, want a Locker, or that the chroot isn't there", err)
		}
	}
	close(end)
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
	_ = s.admin.Delete(root, -1)
	itest.HandOver(t, early, last, step.LockName(t))
}
