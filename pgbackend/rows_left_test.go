package pgbackend_test

import (
	"testing"
	"testing/synctest"
	"time"
)

// A connection that has resigned ends with its last lease, and takes the lease's row with it, also
// where no other connection leads to that server.
func TestRowOfTheLastLeaseOfAConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l := labelled(t)
		defer closeLocker(t, l)
		first, last := acquireAs(t, l, "a"), acquireAs(t, l, "d")
		time.Sleep(11 * time.Second) // it is renewed
		if n := len(f.written()); n != 2 {
			t.Errorf("%d rows, want one of each lease: this test proves nothing", n)
		}
		f.change((*fake).takesOver)
		seesNextEpoch(t, l)
		acquireAs(t, l, "c") // on the next shared connection
		releaseNow(t, first)
		synctest.Wait() // the task that removes rows pauses now
		releaseNow(t, last)
		time.Sleep(time.Second)
		if n := f.serversOf(); n[0] != 0 {
			t.Errorf("%d connections to the server from before, want none", n[0])
		}
		for _, r := range f.written() {
			if r.by.server == 0 {
				t.Errorf("the row of %q is left", r.name)
			}
		}
	})
}
