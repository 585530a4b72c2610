package kit_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker/driver/kit"
)

// distant is a service behind a network, and the process that asks it. Each has one processor, on
// which each message and each request in it takes a moment.
type distant struct {
	roundTrip       time.Duration
	process, server chan struct{} // full while the processor is busy

	sending, most atomic.Int32
}

func newDistant(roundTrip time.Duration) *distant {
	return &distant{roundTrip: roundTrip, process: make(chan struct{}, 1), server: make(chan struct{}, 1)}
}

func (d *distant) send(_ context.Context, reqs []int) ([]int, error) {
	now := d.sending.Add(1)
	defer d.sending.Add(-1)
	for most := d.most.Load(); now > most && !d.most.CompareAndSwap(most, now); most = d.most.Load() {
	}
	n := time.Duration(len(reqs))
	busy(d.process, 8*time.Microsecond+n*3*time.Microsecond)
	time.Sleep(d.roundTrip / 2)
	busy(d.server, 12*time.Microsecond+n*8*time.Microsecond)
	time.Sleep(d.roundTrip / 2)
	busy(d.process, 8*time.Microsecond+n*3*time.Microsecond)
	return reqs, nil
}

func busy(processor chan struct{}, d time.Duration) {
	processor <- struct{}{}
	time.Sleep(d)
	<-processor
}

// answered is how many requests of so many callers are answered in a while, in fake time.
func answered(t *testing.T, roundTrip time.Duration, callers, width, maxWidth int) (n int, most int32) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		d := newDistant(roundTrip)
		l := kit.NewLanes(d.send, kit.LaneOptions{Width: width, MaxWidth: maxWidth, Size: 128, Limit: time.Minute, CallersSend: true})
		var count atomic.Int64
		began := time.Now()
		var all sync.WaitGroup
		for range callers {
			all.Go(func() {
				for time.Since(began) < 50*roundTrip {
					if _, err := l.Do(t.Context(), 1); err != nil {
						t.Errorf("Do = %v", err)
						return
					}
					if time.Since(began) > 20*roundTrip { // the width has settled
						count.Add(1)
					}
				}
			})
		}
		all.Wait()
		n, most = int(count.Load()), d.most.Load()
	})
	return n, most
}

// Where the round trip is long, more lanes carry more requests. Where it is short there are as many
// as before, and requests join.
func TestTheWidthFollowsTheRoundTrip(t *testing.T) {
	const maxWidth = 32
	for _, tc := range []struct {
		roundTrip time.Duration
		callers   int
		better    float64 // than four lanes, at least
	}{
		{20 * time.Microsecond, 4, 1},
		{20 * time.Microsecond, 16, 1},
		{20 * time.Microsecond, 64, 1},
		{500 * time.Microsecond, 4, 1},
		{500 * time.Microsecond, 16, 1.25},
		{500 * time.Microsecond, 64, 1},
		{5 * time.Millisecond, 8, 1.2},
		{5 * time.Millisecond, 16, 1.2},
		{5 * time.Millisecond, 64, 1.2},
	} {
		t.Run(fmt.Sprintf("%v, %d callers", tc.roundTrip, tc.callers), func(t *testing.T) {
			fixed, _ := answered(t, tc.roundTrip, tc.callers, 4, 0)
			follows, most := answered(t, tc.roundTrip, tc.callers, 4, maxWidth)
			if least := tc.better * float64(fixed) * 0.98; float64(follows) < least {
				t.Errorf("%d requests were answered with a width that follows, and %d with four lanes; want %.2f times as many",
					follows, fixed, tc.better)
			}
			if most > maxWidth {
				t.Errorf("%d messages were under way at the same time, want %d at most", most, maxWidth)
			}
		})
	}
}

// The width goes back when messages begin to wait for each other.
func TestTheWidthGoesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var takes atomic.Int64
		takes.Store(int64(time.Millisecond))
		var sending, most atomic.Int32
		l := kit.NewLanes(func(_ context.Context, reqs []int) ([]int, error) {
			if n := sending.Add(1); n > most.Load() {
				most.Store(n)
			}
			defer sending.Add(-1)
			time.Sleep(time.Duration(takes.Load()))
			return reqs, nil
		}, kit.LaneOptions{Width: 2, MaxWidth: 6, Size: 1, Limit: time.Minute})
		ctx, stop := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				for ctx.Err() == nil {
					_, _ = l.Do(context.Background(), 1)
				}
			})
		}
		look := func(after time.Duration, want int32) {
			time.Sleep(after)
			most.Store(0)
			time.Sleep(time.Second / 10)
			if got := most.Load(); got != want {
				t.Errorf("%d messages are under way, want %d", got, want)
			}
		}
		look(time.Second/2, 6)
		takes.Store(int64(4 * time.Millisecond))
		look(time.Second/2, 2)
		look(15*time.Second, 6) // the service is farther away now, and that is what a message takes
		stop()
		all.Wait()
	})
}

// A lane that is new takes of what waits, before a request that comes later can find it free.
func TestANewLaneTakesWhatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sent := make(chan message, 10)
		l := kit.NewLanes(func(ctx context.Context, reqs []int) ([]string, error) {
			m := message{ctx, reqs, make(chan func([]int) ([]string, error))}
			sent <- m
			return (<-m.answer)(reqs)
		}, kit.LaneOptions{Width: 1, MaxWidth: 2, Size: 10, Limit: time.Second, CallersSend: true})
		var replies []chan reply
		for i := range 4 {
			replies = append(replies, do(t.Context(), l, i))
		}
		first := <-sent
		time.Sleep(time.Millisecond)
		first.answer <- echo
		synctest.Wait()
		replies = append(replies, do(t.Context(), l, 4))
		second, third := <-sent, <-sent
		together := [][]int{second.reqs, third.reqs}
		slices.SortFunc(together, slices.Compare)
		if !slices.EqualFunc(together, [][]int{{1, 2}, {3}}, slices.Equal) {
			t.Errorf("%v are under way, want [1 2] and [3]", together)
		}
		second.answer <- echo
		third.answer <- echo
		(<-sent).answer <- echo
		for i, c := range replies {
			if r := <-c; r.err != nil || r.rep != fmt.Sprint(i) {
				t.Errorf("Do(%d) = %q, %v", i, r.rep, r.err)
			}
		}
	})
}
