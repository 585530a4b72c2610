package kit_test

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fencedlock/locker/driver/kit"
)

// BenchmarkLanes is a request through Lanes from many goroutines, against a service that takes a moment for each
// message, or is far away, with four lanes and with a width that follows the round trip.
func BenchmarkLanes(b *testing.B) {
	for _, c := range []struct {
		takes                time.Duration
		goroutines, maxWidth int
	}{
		{50 * time.Microsecond, 1, 4}, {50 * time.Microsecond, 64, 4}, {50 * time.Microsecond, 512, 4},
		{50 * time.Microsecond, 1, 64}, {50 * time.Microsecond, 64, 64}, {50 * time.Microsecond, 512, 64},
		{5 * time.Millisecond, 16, 4}, {5 * time.Millisecond, 64, 4},
		{5 * time.Millisecond, 16, 64}, {5 * time.Millisecond, 64, 64},
	} {
		goroutines := c.goroutines
		b.Run(fmt.Sprintf("%v/goroutines=%d/most=%d", c.takes, goroutines, c.maxWidth), func(b *testing.B) {
			var messages atomic.Int64
			g := kit.NewLanes(func(_ context.Context, reqs []int) ([]int, error) {
				messages.Add(1)
				time.Sleep(c.takes)
				return reqs, nil
			}, kit.LaneOptions{Limit: time.Second, Size: 128, MaxWidth: c.maxWidth})
			b.SetParallelism(max(1, goroutines/runtime.GOMAXPROCS(0)))
			b.RunParallel(func(pb *testing.PB) {
				for i := 0; pb.Next(); i++ {
					if rep, err := g.Do(b.Context(), i); err != nil || rep != i {
						b.Errorf("Do(%d) = %d, %v", i, rep, err)
						return
					}
				}
			})
			b.ReportMetric(float64(messages.Load())/float64(b.N), "messages/request")
		})
	}
}
