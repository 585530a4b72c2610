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
// message.
func BenchmarkLanes(b *testing.B) {
	for _, goroutines := range []int{1, 64, 512} {
		b.Run(fmt.Sprintf("goroutines=%d", goroutines), func(b *testing.B) {
			var messages atomic.Int64
			g := kit.NewLanes(func(_ context.Context, reqs []int) ([]int, error) {
				messages.Add(1)
				time.Sleep(50 * time.Microsecond)
				return reqs, nil
			}, kit.LaneOptions{Limit: time.Second, Size: 128})
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
