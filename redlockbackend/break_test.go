package redlockbackend_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/redlockbackend"
)

var bob = locker.Breach{By: "bob@ops-1", Reason: "hangs since 17:50", At: time.UnixMilli(1795370723000).UTC()}

const denied = "-NOPERM this user has no permissions to run the 'evalsha' command\r\n"

func TestBreakNeedsAMajority(t *testing.T) {
	t.Parallel()
	own, free := onServer("own 7"), onServer("")
	atOnce := bob
	atOnce.AtOnce = true
	for _, c := range []struct {
		what    string
		b       locker.Breach
		look    []string
		answers []string
		within  time.Duration
		err     error  // that it matches
		says    string // or what it contains
	}{
		{"all mark it", bob, []string{own, own, own}, []string{text("marked 3000"), text("marked 5000"), text("marked 4000")}, 4001 * time.Millisecond, nil, ""},
		{"one is silent", bob, []string{own, own, own}, []string{text("marked 3000"), silent, text("marked 4000")}, 4001 * time.Millisecond, nil, ""},
		{"one never had it", bob, []string{own, own, free}, []string{text("marked 3000"), silent, text("gone")}, 3001 * time.Millisecond, nil, ""},
		{"somebody has removed the expiry", bob, []string{own, own, own}, []string{text("marked -1"), text("marked -1"), text("marked 5")}, -1, nil, ""},
		{"somebody has removed the expiry, and one is silent", bob, []string{own, own, own}, []string{text("marked -1"), silent, text("marked 5")}, -1, nil, ""},
		{"all end it", atOnce, []string{own, own, own}, []string{text("ended"), text("ended"), text("ended")}, 0, nil, ""},
		{"a minority marks it", bob, []string{own, own, own}, []string{text("marked 3000"), silent, hangUp}, 0, nil, "1 of 3 servers have"},
		{"a minority ends it", atOnce, []string{own, own, own}, []string{silent, text("ended"), hangUp}, 0, nil, "1 of 3 servers have"},
		{"over meanwhile", bob, []string{own, own, own}, []string{text("gone"), text("gone"), text("marked 9")}, 0, locker.ErrNotHolder, ""},
		{"another lease", bob, []string{onServer("own 8"), onServer("own 8"), own}, []string{silent, silent, silent}, 0, locker.ErrNotHolder, ""},
		{"free", bob, []string{free, free, own}, []string{silent, silent, silent}, 0, locker.ErrNotHolder, ""},
		{"looking is denied", bob, []string{denied, denied, own}, []string{silent, silent, silent}, 0, locker.ErrNoBreaker, ""},
		{"breaking is denied", bob, []string{own, own, own}, []string{denied, denied, denied}, 0, locker.ErrNoBreaker, ""},
		{"breaking is denied where it matters", bob, []string{own, own, own}, []string{text("marked 9"), denied, denied}, 0, nil, "1 of 3 servers have"},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			cl := newCluster(t, 3, time.Second)
			cl.answer("inspect", c.look...)
			cl.answer("break", c.answers...)
			effect, err := cl.Driver.(driver.Breaker).Break(t.Context(), "a", 7, c.b)
			switch {
			case c.says != "":
				if err == nil || errors.Is(err, locker.ErrNotHolder) || errors.Is(err, locker.ErrNoBreaker) || !strings.Contains(err.Error(), c.says) {
					t.Errorf("Break = %v, want an error that says %q", err, c.says)
				}
			case !errors.Is(err, c.err):
				t.Errorf("Break = %v, want %v", err, c.err)
			}
			if want := (locker.Effect{Within: c.within}); effect != want {
				t.Errorf("Break = %+v, want %+v", effect, want)
			}
		})
	}
}

// A mark on a minority costs the lease these servers. On more, the lease is lost, and what is marked
// must be released.
func TestHolderLearnsOfABreak(t *testing.T) {
	mark, ended := text("broken "+driver.FormatBreach(bob)), text("gone "+driver.FormatBreach(bob))
	for _, c := range []struct {
		what   string
		rounds [][]string
		broken []bool
	}{
		{"marked on all", [][]string{{mark, mark, mark}}, []bool{true}},
		{"marked on a majority", [][]string{{mark, renewed, mark}}, []bool{true}},
		{"marked on a minority, and then on another one", [][]string{{mark, renewed, renewed}, {mark, mark, renewed}}, []bool{false, true}},
		{"ended", [][]string{{ended, ended, silent}}, []bool{true}},
		{"gone without a word", [][]string{{gone, gone, gone}}, []bool{false}},
	} {
		t.Run(c.what, func(t *testing.T) {
			cl := newCluster(t, 3, time.Second)
			cl.answer("acquire", raised, raised, raised)
			l := cl.lock(t, true)
			if _, err := l.Acquire(t.Context()); err != nil {
				t.Fatal(err)
			}
			redlockbackend.AwaitIdle(t.Context(), cl.Driver)
			for i, answers := range c.rounds {
				cl.answer("renew", answers...)
				_, err := cl.renew(t, l)
				var found *locker.Breach
				if errors.As(err, &found) != c.broken[i] || c.broken[i] && (*found != bob || locker.LossOf(err) != "broken" || !errors.Is(err, locker.ErrLost)) {
					t.Errorf("round %d: Renew = %v, want a breach: %v", i, err, c.broken[i])
				}
				redlockbackend.AwaitIdle(t.Context(), cl.Driver)
			}
			if err := cl.released(t, l); err != nil {
				t.Errorf("Release = %v", err)
			}
			last := c.rounds[len(c.rounds)-1]
			for i, n := range cl.called("release") {
				if strings.Contains(last[i], "broken") && n != 1 {
					t.Errorf("server %d has the mark, and was asked to release %d times", i, n)
				}
			}
		})
	}
}

// While a majority without the mark renews the lease, nothing has been taken away.
func TestInspectShowsABreak(t *testing.T) {
	t.Parallel()
	mark, own := onServer("!own 7\n0 web\n"+driver.FormatBreach(bob)), onServer("own 7\n0 web")
	for _, c := range []struct {
		what    string
		answers []string
		broken  bool
	}{
		{"on all", []string{mark, mark, mark}, true},
		{"on a majority", []string{mark, own, mark}, true},
		{"on one of those that answer", []string{own, mark, silent}, true},
		{"on a minority", []string{own, mark, own}, false},
	} {
		cl := newCluster(t, 3, 500*time.Millisecond)
		cl.answer("inspect", c.answers...)
		s, err := cl.Driver.(driver.Inspector).Inspect(t.Context(), "a", locker.Look{})
		if err != nil || s.Holder == nil || s.Holder.Owner != "own" || s.Holder.Token != 7 || s.Holder.Holder != "web" || len(s.Partial) > 0 {
			t.Errorf("marked %s: Inspect = %+v, %v, want one holder", c.what, s, err)
			continue
		}
		if s.Holder.Broken != nil != c.broken || c.broken && *s.Holder.Broken != bob {
			t.Errorf("marked %s: Inspect shows %+v, want a breach: %v", c.what, s.Holder.Broken, c.broken)
		}
	}
}
