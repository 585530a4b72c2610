package kit_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker/driver/kit"
)

func TestParallel(t *testing.T) {
	for _, n := range []int{0, 1, 7} {
		synctest.Test(t, func(t *testing.T) {
			var mu sync.Mutex
			running, most, calls := 0, 0, make(map[int]int)
			began := time.Now()
			kit.Parallel(3, make([]int, n), func(int) {
				mu.Lock()
				running++
				most = max(most, running)
				calls[len(calls)]++
				mu.Unlock()
				time.Sleep(time.Second)
				mu.Lock()
				running--
				mu.Unlock()
			})
			if len(calls) != n || running != 0 || most != min(n, 3) {
				t.Errorf("%d items: %d calls, at most %d at a time, and %d still run, want all, 3 and none", n, len(calls), most, running)
			}
			if took, want := time.Since(began), time.Duration((n+2)/3)*time.Second; took != want {
				t.Errorf("%d items take %v, want %v", n, took, want)
			}
		})
	}
}
