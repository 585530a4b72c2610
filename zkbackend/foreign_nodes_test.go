package zkbackend_test

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/fencedlock/locker"
)

// Nodes that this package has not created are ignored.
func TestForeignNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		l, other := open(t, s), open(t, s)
		release(t, acquire(t, l, "a"))
		s.mu.Lock()
		_, _ = s.tree.create("/locker/a/lock-", 2, 0)
		_, _ = s.tree.create("/locker/a/notes", 0, 0)
		s.mu.Unlock()
		lease := acquire(t, l, "a")
		if _, err := locker.TryAcquire(t.Context(), other, "a"); !errors.Is(err, locker.ErrHeld) {
			t.Errorf("TryAcquire = %v, want ErrHeld", err)
		}
		release(t, lease)
		lease, err := locker.TryAcquire(t.Context(), other, "a")
		if err != nil {
			t.Fatalf("TryAcquire = %v, want a lease", err)
		}
		release(t, lease)
	})
}

// TryAcquire doesn't take its own node for somebody else's when it has to look twice.
func TestOwnNodeIsNoHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		l := open(t, s)
		release(t, acquire(t, l, "a"))
		s.mu.Lock()
		_, _ = s.tree.create("/locker/a/notes", 0, 0) // so that it looks whether it is the first
		s.mu.Unlock()
		made, cut := false, false
		s.scripts(func(r request) verdict {
			if made = made || r.op == "multi"; made && !cut && r.op == "children" {
				cut = true
				return hangUp
			}
			return serve
		})
		lease, err := locker.TryAcquire(t.Context(), l, "a")
		if err != nil || !cut {
			t.Fatalf("TryAcquire of a free lock = %v, want a lease (it was cut off: %v)", err, cut)
		}
		release(t, lease)
		if n := len(s.children("a")); n != 1 {
			t.Errorf("%d nodes, want that of somebody else", n)
		}
	})
}

// TryAcquire whose node is deleted before it has looked whether it is the first: nobody holds the lock.
func TestOwnNodeIsDeletedByOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		l := open(t, s)
		release(t, acquire(t, l, "a"))
		s.mu.Lock()
		_, _ = s.tree.create("/locker/a/notes", 0, 0) // so that it looks
		s.mu.Unlock()
		made := false
		s.scripts(func(r request) verdict {
			if made = made || r.op == "multi"; made && r.op == "children" {
				for _, node := range s.tree.nodes["/locker/a"].children {
					if node != "notes" {
						s.remove("/locker/a/" + node)
						break
					}
				}
			}
			return serve
		})
		_, err := locker.TryAcquire(t.Context(), l, "a")
		if errors.Is(err, locker.ErrHeld) || errors.Is(err, locker.ErrLost) || !contains(err, "node was deleted") {
			t.Errorf("TryAcquire = %v, want that its node was deleted", err)
		}
	})
}
