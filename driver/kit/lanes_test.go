package kit_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker/driver/kit"
)

func TestAFewRequestsGoAloneAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, sent := messenger(kit.LaneOptions{Limit: time.Second, Size: 10})
		var replies []chan reply
		for i := range 4 {
			replies = append(replies, do(t.Context(), g, i))
		}
		for range 4 {
			m := <-sent
			if len(m.reqs) != 1 {
				t.Errorf("%v went together", m.reqs)
			}
			m.answer <- echo
		}
		for i, c := range replies {
			if r := <-c; r.err != nil || r.rep != fmt.Sprint(i) {
				t.Errorf("Do(%d) = %q, %v", i, r.rep, r.err)
			}
		}
	})
}

// Whichever message is the first to return makes room for a quarter of what is under way or waits. If it took all, the other
// three would carry nothing, and the service would idle while the caller works off one large answer, and the other way round.
func TestRequestsJoinUnderLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, sent := messenger(kit.LaneOptions{Limit: time.Second, Size: 4})
		var replies []chan reply
		for i := range 20 {
			replies = append(replies, do(t.Context(), g, i))
		}
		var first []message
		for range 4 {
			first = append(first, <-sent)
		}
		if len(sent) > 0 {
			t.Fatalf("%d messages more than go side by side", len(sent))
		}
		first[2].answer <- echo // 16 wait and 3 are under way: a quarter would be 5, but there are at most four in a message
		second := <-sent
		second.is(t, 4, 5, 6, 7)
		second.answer <- echo // 12 and 3
		second = <-sent
		second.is(t, 8, 9, 10, 11)
		second.answer <- echo // 8 and 3
		second = <-sent
		second.is(t, 12, 13, 14)
		first[0].answer <- failing // 5 and 5
		third := <-sent
		third.is(t, 15, 16, 17)
		third.answer <- echo // 2 and 5
		third = <-sent
		third.is(t, 18, 19)
		third.answer <- echo
		second.answer <- echo
		first[1].answer <- echo
		first[3].answer <- echo
		for i, c := range replies {
			r := <-c
			if i == first[0].reqs[0] {
				matches(t, "Do", r.err, errService)
				matchesNone(t, "Do", r.err, kit.ErrNotSent)
				continue
			}
			if r.err != nil || r.rep != fmt.Sprint(i) {
				t.Errorf("Do(%d) = %q, %v", i, r.rep, r.err)
			}
		}
		// And nothing is left of the load.
		last := do(t.Context(), g, 42)
		m := <-sent
		m.is(t, 42)
		m.answer <- echo
		<-last
	})
}

// A failure of a message is ambiguous for each of its members, and so is an answer that can't be told apart.
func TestAMessageThatFails(t *testing.T) {
	for _, tc := range []struct {
		name   string
		answer func([]int) ([]string, error)
		match  error
	}{
		{"an error", failing, errService},
		{"no reply", func([]int) ([]string, error) { return nil, nil }, nil},
		{"a reply too few", func(reqs []int) ([]string, error) { return make([]string, len(reqs)-1), nil }, nil},
		{"a reply too many", func(reqs []int) ([]string, error) { return make([]string, len(reqs)+1), nil }, nil},
		{"replies and an error", func(reqs []int) ([]string, error) { return make([]string, len(reqs)), errService }, errService},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g, sent := messenger(kit.LaneOptions{Limit: time.Second, Size: 10})
				var replies []chan reply
				for i := range 7 {
					replies = append(replies, do(t.Context(), g, i))
				}
				for range 4 {
					(<-sent).answer <- echo
				}
				for range 2 { // 4 and 5, and 6
					(<-sent).answer <- tc.answer
				}
				for i, c := range replies {
					r := <-c
					if i < 4 {
						if r.err != nil {
							t.Errorf("Do(%d) = %v, of a message that succeeded", i, r.err)
						}
						continue
					}
					if r.err == nil || r.rep != "" {
						t.Errorf("Do(%d) = %q, %v, want an error", i, r.rep, r.err)
					}
					if tc.match != nil {
						matches(t, "Do", r.err, tc.match)
					}
					matchesNone(t, "Do", r.err, kit.ErrNotSent)
				}
			})
		})
	}
}

func TestLanesWithoutASize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := kit.NewLanes(func(_ context.Context, reqs []int) ([]string, error) { return echo(reqs) }, kit.LaneOptions{Limit: time.Second, Size: 0})
		for i := range 10 {
			if rep, err := g.Do(t.Context(), i); err != nil || rep != fmt.Sprint(i) {
				t.Errorf("Do(%d) = %q, %v", i, rep, err)
			}
		}
	})
}

// With one lane all that comes while a message is under way goes out with the next one.
func TestOneLane(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, sent := messenger(kit.LaneOptions{Width: 1, Size: 3, Limit: time.Second, CallersSend: true})
		var replies []chan reply
		for i := range 6 {
			replies = append(replies, do(t.Context(), l, i))
		}
		for _, want := range [][]int{{0}, {1, 2, 3}, {4, 5}} {
			m := <-sent
			m.is(t, want...)
			if len(sent) > 0 {
				t.Error("two messages are under way")
			}
			m.answer <- echo
			synctest.Wait()
		}
		for i, c := range replies {
			if r := <-c; r.err != nil || r.rep != fmt.Sprint(i) {
				t.Errorf("Do(%d) = %q, %v", i, r.rep, r.err)
			}
		}
	})
}
