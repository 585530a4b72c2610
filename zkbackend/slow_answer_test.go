package zkbackend_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker"
)

// A list of locks arrives slowly, and renewals wait behind it on the session's only connection. The
// connection is given up in time for them: the list fails, and the lease lives.
func TestLeaseWhileListIsSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		s.way = time.Millisecond
		l := open(t, s)
		for i := range 100 {
			release(t, acquire(t, l, fmt.Sprintf("a lock with a long name %d", i)))
		}
		lease := acquire(t, l, "a")
		for range 20 { // at different times since the last renewal
			s.mu.Lock()
			s.trickle = ttl * 95 / 100 // less than the client waits for an answer by itself
			s.mu.Unlock()
			var listed error
			for _, err := range locker.List(t.Context(), l, "", 0) {
				listed = err
			}
			if err := lease.Err(); err != nil {
				t.Fatalf("the lease is lost: %v", err)
			}
			if !contains(listed, "no answer") {
				t.Errorf("List = %v, want that there is no answer", listed)
			}
			s.mu.Lock()
			s.trickle = 0
			s.mu.Unlock()
			listNames(t, l, "")
			time.Sleep(ttl/3 + ttl/20)
		}
		release(t, lease)
	})
}
