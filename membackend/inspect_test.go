package membackend

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
)

// A look passes nobody over: the lock of a holder whose lease has expired is shown as free, with
// its waiters, until somebody who wants it asks. A waiter that must be dead isn't shown.
func TestInspectPassesNobodyOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newStage()
		st.play("a", "acquire")
		st.play("short", "acquire")
		st.stopTimers()
		time.Sleep(5 * time.Second) // longer than the second one's TTL
		st.play("b", "acquire")
		look := func() (held bool, waiting int) {
			st.server.mu.Lock()
			defer st.server.mu.Unlock()
			s := st.server.inspect("lock", locker.Look{Waiters: 1}, driver.Now())
			if all := st.server.list("", 1, driver.Now()); len(all) != 1 || all[0].Waiting != s.Waiting {
				t.Errorf("List shows %+v, and Inspect %+v", all, s)
			}
			if token := st.server.current("lock", driver.Now()); (token != 0) != (s.Holder != nil) {
				t.Errorf("CurrentToken = %d, and Inspect shows %+v", token, s)
			}
			return s.Holder != nil, s.Waiting
		}
		if held, waiting := look(); !held || waiting != 1 {
			t.Errorf("before the expiry: held %v, and %d wait, want true and 1", held, waiting)
		}
		st.takePushed()
		st.stopTimers()
		time.Sleep(protocolTTL - 5*time.Second)
		if held, waiting := look(); held || waiting != 1 {
			t.Errorf("after the expiry: held %v, and %d wait, want false and 1", held, waiting)
		}
		if pushed := st.takePushed(); len(pushed) != 0 {
			t.Errorf("a look has pushed %q", pushed)
		}
		if got := st.play("b", "renew"); got != "granted" {
			t.Errorf("the waiter's renewal after that = %q, want granted", got)
		}
	})
}
