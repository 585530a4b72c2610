package main

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestStore(t *testing.T) {
	s := newStore("counter", []int{5, 6, 7})
	s.answer(request{Say: sayRead, Token: 2})
	if r := s.answer(request{Say: sayWrite, Token: 1, Values: []int{9}}); !r.Refused {
		t.Error("a write with an old token was not refused")
	}
	s.answer(request{Say: sayWrite, Token: 2, Update: 1, Cells: []int{2, 0}, Values: []int{3, 1}})
	if r := s.answer(request{Say: sayRead, Cells: []int{0, 2}}); !slices.Equal(r.Values, []int{1, 3}) {
		t.Errorf("cells 0 and 2 contain %v, want 1 and 3", r.Values)
	}
	s.answer(request{Say: sayWrite, Update: 2, Values: []int{4, 5}}) // without a fence, all cells
	d := s.data()
	if !slices.Equal(d.final, []int{4, 5}) || !slices.Equal(d.start, []int{5, 6, 7}) || d.acknowledged() != 2 || s.refused != 1 {
		t.Errorf("%+v, %d refused; want 4 and 5 at the end, 2 acknowledged and 1 refused", d, s.refused)
	}
}

// What a watch says that the holder believed, it did believe, and so for what it knew.
func TestWatch(t *testing.T) {
	var lost atomic.Bool
	deadline := time.Now().Add(time.Hour)
	h := &holding{held: func() bool { return !lost.Load() }, deadline: func() time.Time { return deadline }}
	w := startWatch(h, section{Granted: now()})
	if !w.look() {
		t.Fatal("a lock that is held is shown as lost")
	}
	before := now()
	lost.Store(true)
	after := now()
	s := w.end()
	if s.Held == 0 || s.Held > after || s.Lost < before || s.Released < s.Lost {
		t.Errorf("held %d, lost %d, released %d; want held ≤ %d, and %d ≤ lost ≤ released", s.Held, s.Lost, s.Released, after, before)
	}
	if d := time.Duration(s.Deadline - momentOf(deadline)).Abs(); d > time.Second {
		t.Errorf("the deadline is off by %v", d)
	}

	var looked moment
	lost.Store(false)
	if w.look(); !w.s.Returned || w.s.Held != s.Held || w.s.Lost != s.Lost {
		t.Errorf("a lease that came back: %+v; want the same moments as before, and that it returned: %+v", w.s, s)
	}

	w = &watch{holding: &holding{held: func() bool { looked = now(); return true }}}
	if w.look(); w.s.Held > looked {
		t.Errorf("held at %d, after the look at %d", w.s.Held, looked)
	}
	w.held = func() bool { looked = now(); return false }
	if w.look(); w.s.Lost < looked {
		t.Errorf("lost at %d, before the look at %d", w.s.Lost, looked)
	}

	w = startWatch(&holding{}, section{})
	before = now()
	if s := w.end(); s.Held < before || s.Lost != 0 {
		t.Errorf("without means to know: held %d, lost %d; want held until the release at %d", s.Held, s.Lost, s.Released)
	}
}

// A fault of the service happens once, when all victims are there or have left.
func TestGather(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		happened := 0
		broken := errors.New("broken")
		g := gatherAll(3, func(context.Context) error {
			happened++
			return broken
		})
		var all sync.WaitGroup
		for range 2 {
			all.Go(func() {
				g.arrive()
				if err := g.happen(t.Context()); !errors.Is(err, broken) {
					t.Errorf("happen = %v, want the fault's error", err)
				}
			})
		}
		synctest.Wait()
		if happened != 0 {
			t.Errorf("the fault happened %d times before all were there", happened)
		}
		g.leave()
		all.Wait()
		if happened != 1 {
			t.Errorf("the fault happened %d times, want once", happened)
		}
	})
}

func TestRowAdds(t *testing.T) {
	var r row
	r.void("no lock")
	r.void("no lock", "a late grant")
	r.add(findings{Acknowledged: 14, Lost: 2, Overlap: time.Millisecond, Grant: duration(3)}, 5*time.Millisecond)
	r.add(findings{Acknowledged: 10, Late: true, Grant: duration(9)}, 5*time.Millisecond)
	if r.Rounds != 2 || r.Void != 2 || len(r.Why) != 1 || r.Acknowledged != 24 || r.Lost != 2 || r.Late != 1 ||
		r.Overlaps != 1 || r.LongestOverlap != 1 || *r.Grant != (spread{3, 9, 9}) || r.Bound != 5 {
		t.Errorf("row = %+v", r)
	}
	if got, want := r.whyVoid(), "no lock; they showed a late grant 1×"; got != want {
		t.Errorf("whyVoid = %q, want %q", got, want)
	}
}
