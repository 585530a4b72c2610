package kit_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fencedlock/locker/driver/kit"
)

// Many callers, some of whom leave: each gets the reply to its own request or an error, and what was not sent was not
// executed.
func TestLanesUnderLoad(t *testing.T) {
	const callers, each, size = 32, 200, 8
	var carried [callers * each]atomic.Int32
	var side, most atomic.Int32
	g := kit.NewLanes(func(_ context.Context, reqs []int) ([]string, error) {
		if n := side.Add(1); n > most.Load() {
			most.Store(n)
		}
		defer side.Add(-1)
		if len(reqs) > size || len(reqs) == 0 {
			t.Errorf("a message of %d", len(reqs))
		}
		for _, r := range reqs {
			carried[r].Add(1)
		}
		time.Sleep(time.Duration(rand.IntN(50)) * time.Microsecond)
		return echo(reqs)
	}, kit.LaneOptions{Limit: time.Minute, Size: size})
	var wg sync.WaitGroup
	for c := range callers {
		wg.Go(func() {
			for i := range each {
				req := c*each + i
				ctx, cancel := context.WithCancel(t.Context())
				if i%3 == 0 {
					time.AfterFunc(time.Duration(rand.IntN(200))*time.Microsecond, cancel)
				}
				rep, err := g.Do(ctx, req)
				switch n := carried[req].Load(); {
				case err == nil && (rep != fmt.Sprint(req) || n != 1):
					t.Errorf("Do(%d) = %q, executed %d times", req, rep, n)
				case errors.Is(err, kit.ErrNotSent) && n != 0:
					t.Errorf("Do(%d) = %v, but it was executed", req, err)
				case err != nil && !errors.Is(err, context.Canceled):
					t.Errorf("Do(%d) = %v", req, err)
				}
				cancel()
			}
		})
	}
	wg.Wait()
	if n := most.Load(); n > 4 {
		t.Errorf("%d messages side by side, want 4 at most", n)
	}
}
