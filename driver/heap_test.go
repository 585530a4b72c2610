package driver

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// check returns what is wrong with the order of a heap, or with the positions that its leases know.
func (h heap) check() error {
	for i, l := range h {
		if l.heapPos != i {
			return fmt.Errorf("the lease at %d believes to be at %d", i, l.heapPos)
		}
		if parent := h[(i-1)/2]; i > 0 && parent.moment > l.moment {
			return fmt.Errorf("%d is before its parent at %d", i, (i-1)/2)
		}
	}
	return nil
}

// Random operations against a map; the order of the heap is checked after each.
func TestHeap(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 0))
		var h heap
		in := make(map[*lease]Instant)
		var all []*lease
		for range 20 {
			all = append(all, &lease{heapPos: -1})
		}
		for range 500 {
			l := all[r.IntN(len(all))]
			if r.IntN(3) == 0 {
				h.remove(l) // also one that is not in it
				delete(in, l)
			} else {
				at := Instant(r.IntN(50) - 25) // with many equal ones
				h.set(l, at)
				in[l] = at
			}
			if err := h.check(); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			if len(h) != len(in) {
				t.Fatalf("seed %d: %d moments, want %d", seed, len(h), len(in))
			}
			want := Never
			for _, at := range in {
				want = min(want, at)
			}
			if len(in) > 0 && h[0].moment != want {
				t.Fatalf("seed %d: the first is %d, want %d", seed, h[0].moment, want)
			}
		}
	}
}
