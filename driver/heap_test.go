package driver_test

import (
	"math/rand/v2"
	"testing"

	"github.com/fencedlock/locker/driver"
)

// Random operations against a map; the order of the heap is checked after each.
func TestHeap(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 0))
		var h driver.Moments
		in := make(map[*driver.Moment]driver.Instant)
		var all []*driver.Moment
		for range 20 {
			all = append(all, driver.NewMoment())
		}
		for range 500 {
			m := all[r.IntN(len(all))]
			if r.IntN(3) == 0 {
				h.Remove(m) // also one that is not in it
				delete(in, m)
			} else {
				at := driver.Instant(r.IntN(50) - 25) // with many equal ones
				h.Set(m, at)
				in[m] = at
			}
			if err := h.Check(); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			if h.Len() != len(in) {
				t.Fatalf("seed %d: %d moments, want %d", seed, h.Len(), len(in))
			}
			want := driver.Never
			for _, at := range in {
				want = min(want, at)
			}
			if len(in) > 0 && h.First() != want {
				t.Fatalf("seed %d: the first is %d, want %d", seed, h.First(), want)
			}
		}
	}
}
