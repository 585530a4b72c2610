package zkbackend_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/zkbackend"
)

// useOften acquires and releases a lock until the version of its node is one that is remembered.
func useOften(t *testing.T, l locker.Locker, name string) {
	t.Helper()
	for range zkbackend.MinRemembered {
		release(t, acquire(t, l, name))
	}
}

// A Locker remembers the version with which it left the lock's node. The node was removed and created
// again, and somebody who holds the lock has given it the same version.
func TestVersionOfAnotherNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		l := open(t, s)
		useOften(t, l, "a")
		s.mu.Lock()
		s.tree.remove("/locker/a")
		s.tree.zxid++
		_, _ = s.tree.create("/locker/a", 4, 0)
		_, _ = s.tree.create("/locker/a/"+strings.Repeat("e", 32)+"-", 3, 99)
		for range zkbackend.MinRemembered {
			s.tree.set("/locker/a", -1)
		}
		s.mu.Unlock()
		if _, err := locker.TryAcquire(t.Context(), l, "a"); !errors.Is(err, locker.ErrHeld) {
			t.Fatalf("TryAcquire = %v, want ErrHeld", err)
		}
		if got := fmt.Sprint(s.asked()); !strings.Contains(got, "multi multi children exists") {
			t.Errorf("asked for %v: the node was not created, so this test proves nothing", got)
		}
		s.nodesAre(t, "a", 1)
	})
}

// A new node soon has the small versions of the one before it. If such a version were remembered, a
// TryAcquire of a held lock would create a node, and leave it there if the answer is lost.
func TestSmallVersionsAreNotRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		l, other := open(t, s), open(t, s)
		useOften(t, l, "a") // a version that must be forgotten, too
		for range zkbackend.MinRemembered - 1 {
			s.mu.Lock()
			s.tree.remove("/locker/a")
			s.mu.Unlock()
			release(t, acquire(t, l, "a"))
		}
		s.mu.Lock()
		s.tree.remove("/locker/a")
		s.mu.Unlock()
		acquire(t, other, "a")
		s.asked()
		if _, err := locker.TryAcquire(t.Context(), l, "a"); !errors.Is(err, locker.ErrHeld) {
			t.Errorf("TryAcquire = %v, want ErrHeld", err)
		}
		s.wasAsked(t, "TryAcquire", "exists", "multi", "children")
	})
}

// A waiter that gave up has not seen the lock free, whatever the version of the lock's node.
func TestWaiterThatGaveUpLeavesNoVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		useOften(t, open(t, s), "a")
		holder, _ := queue(t, s, "a", 0)
		l := open(t, s)
		w := wait(t, l, "a")
		s.nodesAre(t, "a", 2)
		w.cancel()
		<-w.done
		s.nodesAre(t, "a", 1)
		s.asked()
		if _, err := locker.TryAcquire(t.Context(), l, "a"); !errors.Is(err, locker.ErrHeld) {
			t.Errorf("TryAcquire = %v, want ErrHeld", err)
		}
		s.wasAsked(t, "TryAcquire", "exists", "multi", "children")
		release(t, holder)
	})
}
