package membackend

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
)

// A lease whose TTL is over isn't the holder's any more, though no timer has noticed it.
func TestBreakOfALeaseThatHasExpired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newStage()
		st.play("a", "acquire")
		st.stopTimers()
		time.Sleep(protocolTTL)
		st.server.mu.Lock()
		defer st.server.mu.Unlock()
		if within, found := st.server.takeAway("lock", st.tokens[0], locker.Breach{}, driver.Now()); found {
			t.Errorf("a lease that has expired is taken away, and lasts for %v", within)
		}
	})
}
