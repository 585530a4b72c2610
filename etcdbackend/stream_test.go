package etcdbackend_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker/etcdbackend"
)

const confirmLimit = 2500 * time.Millisecond // of one member, to open a stream, or to confirm a watch on it

// bubble runs a case in which time passes at once.
func bubble(t *testing.T, why string, f func(t *testing.T)) {
	t.Run(why, func(t *testing.T) { synctest.Test(t, f) })
}

// A member that doesn't open a stream is left after a while, whatever begins and ends to be watched meanwhile.
func TestOpeningIsLimited(t *testing.T) {
	for _, c := range []struct {
		why       string
		meanwhile func(*etcdbackend.Watches)
	}{
		{"nothing else", func(*etcdbackend.Watches) {}},
		{"a watch is begun", func(w *etcdbackend.Watches) { w.AddHeld() }},
		{"a watch is begun and ended", func(w *etcdbackend.Watches) { w.Remove(w.AddHeld()) }},
		{"another is begun, and the first one ended", func(w *etcdbackend.Watches) { w.AddHeld(); w.Remove(1) }},
		{"the one for which it is opened is ended", func(w *etcdbackend.Watches) { w.Remove(1) }},
	} {
		bubble(t, c.why, func(t *testing.T) {
			w := etcdbackend.NewWatches()
			w.AddHeld()
			w.Begin()
			time.Sleep(confirmLimit / 2)
			c.meanwhile(w)
			time.Sleep(confirmLimit / 2)
			synctest.Wait()
			if !w.Over {
				t.Errorf("after %v the member is still waited for", confirmLimit)
			}
		})
	}
}

// The keys of holders are read once all watches of a new stream are confirmed, or not needed any more.
func TestHeldAreConfirmed(t *testing.T) {
	for _, c := range []struct {
		why  string
		last func(*etcdbackend.Watches, int64)
		want int
	}{
		{"confirmed", (*etcdbackend.Watches).Confirm, 2},
		{"ended", (*etcdbackend.Watches).Remove, 1},
	} {
		bubble(t, c.why, func(t *testing.T) {
			w := etcdbackend.NewWatches()
			a, b := w.AddHeld(), w.AddHeld()
			w.Begin()
			w.Open()
			w.Confirm(a)
			if w.Doubted != 0 {
				t.Errorf("%d keys are read before the last watch is %s", w.Doubted, c.why)
			}
			c.last(w, b)
			if w.Doubted != c.want {
				t.Errorf("when the last watch is %s %d keys are read, want %d", c.why, w.Doubted, c.want)
			}
			time.Sleep(2 * confirmLimit)
			synctest.Wait()
			if w.Over {
				t.Errorf("the last watch was %s, and the member is left all the same", c.why)
			}
		})
	}
}

// A watch that ends itself when it begins counts once: the member still owes the other.
func TestEndedAsItBegins(t *testing.T) {
	for _, c := range []struct {
		why   string
		begin func(*etcdbackend.Watches, int64)
	}{
		{"confirmed", (*etcdbackend.Watches).Confirm},
		{"compacted", (*etcdbackend.Watches).Compact},
	} {
		bubble(t, c.why, func(t *testing.T) {
			w := etcdbackend.NewWatches()
			w.AddHeld()
			far := w.AddFar()
			w.Begin()
			w.Open()
			c.begin(w, far)
			time.Sleep(confirmLimit)
			synctest.Wait()
			if !w.Over {
				t.Errorf("after %v the member is still waited for", confirmLimit)
			}
		})
	}
}

// A stream to a member that was left before it was begun would be ended by nobody while that member is silent.
func TestNoStreamToAMemberThatWasLeft(t *testing.T) {
	if etcdbackend.NewWatches().BeginAtALeftMember() {
		t.Error("a stream is begun to a member that was left")
	}
}
