package kit_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker/driver/kit"
)

// Where send limits the time by itself, a message has its caller's deadline only.
func TestLanesWithoutLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		limited := 0
		l := kit.NewLanes(func(ctx context.Context, reqs []int) ([]string, error) {
			time.Sleep(time.Second)
			mu.Lock()
			defer mu.Unlock()
			if _, ends := ctx.Deadline(); ends {
				limited++
			}
			return echo(reqs)
		}, kit.LaneOptions{Width: 1, Size: 4, CallersSend: true})
		var all sync.WaitGroup
		for i := range 5 { // one that is sent by its caller, and a message of four
			all.Go(func() {
				if _, err := l.Do(t.Context(), i); err != nil {
					t.Errorf("Do(%d) = %v", i, err)
				}
			})
		}
		all.Wait()
		if limited != 0 {
			t.Errorf("%d messages have a deadline, want none", limited)
		}
	})
}
