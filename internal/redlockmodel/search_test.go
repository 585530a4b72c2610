package redlockmodel_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// The search through a model: all orders of moves, or random ones.

// world is a model, and S a state of it: all that matters to what can happen next.
type world[S comparable] interface {
	begin() S
	moves(s S, to []move) []move            // what can happen next, in a fixed order
	apply(s S, m move) (next S, bad string) // bad: the promise that this move breaks
	canonical(s S) S                        // the same for states that differ in the servers' order alone
	tell(s S, m move) string                // m in words, from s
}

// failure is the shortest way found to a broken promise.
type failure struct {
	bad   string
	moves []string
}

func (f *failure) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, after %d moves:", f.bad, len(f.moves))
	for i, m := range f.moves {
		fmt.Fprintf(&b, "\n%3d. %s", i+1, m)
	}
	return b.String()
}

// mostStates ends a search that would need too much memory.
const mostStates = 30_000_000

// exhaust tries all moves in all orders, breadth first: so the first failure is a shortest one. It
// returns how many states there are.
func exhaust[S comparable](t *testing.T, w world[S]) (states int, f *failure) {
	t.Helper()
	first := w.canonical(w.begin())
	number := map[S]int32{first: 0} // states in the order in which they were found
	parent := []int32{-1}
	level := []S{first} // the states that are as many moves away, with numbers from begin on
	var below []S
	var moves []move
	for begin := int32(0); len(level) > 0; level, below = below, level[:0] {
		for i, s := range level {
			moves = w.moves(s, moves[:0])
			for _, m := range moves {
				next, bad := w.apply(s, m)
				if bad != "" {
					path := []int32{begin + int32(i)}
					for path[0] > 0 {
						path = slices.Insert(path, 0, parent[path[0]])
					}
					return len(parent), retell(w, number, path, bad)
				}
				next = w.canonical(next)
				if _, known := number[next]; !known {
					number[next] = int32(len(parent))
					parent = append(parent, begin+int32(i))
					below = append(below, next)
				}
			}
			if len(parent) > mostStates {
				t.Fatalf("more than %d states", mostStates)
			}
		}
		begin += int32(len(level))
	}
	return len(parent), nil
}

// retell finds the moves that go along a path of states and then break a promise. The servers keep
// their names on the way.
func retell[S comparable](w world[S], number map[S]int32, path []int32, bad string) *failure {
	f := &failure{bad: bad}
	s := w.begin()
	for _, want := range path[1:] {
		for _, m := range w.moves(s, nil) {
			if next, _ := w.apply(s, m); number[w.canonical(next)] == want {
				f.moves = append(f.moves, w.tell(s, m))
				s = next
				break
			}
		}
	}
	for _, m := range w.moves(s, nil) {
		if _, b := w.apply(s, m); b == bad {
			f.moves = append(f.moves, w.tell(s, m))
			break
		}
	}
	return f
}

// walk makes random moves until nothing can happen any more, n times. Of a walk that breaks a
// promise what isn't needed for that is taken out, one move after the other.
func walk[S comparable](w world[S], rng *rand.Rand, n int) (steps int, f *failure) {
	var made, moves []move
	for range n {
		s, mixture := w.begin(), draw(rng)
		for made = made[:0]; ; steps++ {
			if moves = w.moves(s, moves[:0]); len(moves) == 0 || len(made) == 200 {
				break
			}
			m := mixture.pick(rng, moves)
			made = append(made, m)
			var bad string
			if s, bad = w.apply(s, m); bad != "" {
				return steps, replay(w, shorten(w, made))
			}
		}
	}
	return steps, nil
}

// weights make each walk another mixture: with many keys that expire and few, with much time that
// goes by and little.
type weights [kinds]int

func draw(rng *rand.Rand) (w weights) {
	for k := range w {
		w[k] = 1 << (2 * rng.IntN(5))
	}
	return w
}

func (w *weights) pick(rng *rand.Rand, moves []move) move {
	sum := 0
	for _, m := range moves {
		sum += w[m.kind]
	}
	n := rng.IntN(sum)
	for _, m := range moves {
		if n -= w[m.kind]; n < 0 {
			return m
		}
	}
	panic("unreachable")
}

func shorten[S comparable](w world[S], made []move) []move {
	for again := true; again; {
		again = false
		for i := len(made) - 1; i >= 0; i-- {
			if fewer := slices.Delete(slices.Clone(made), i, i+1); replay(w, fewer) != nil {
				made, again = fewer, true
			}
		}
	}
	return made
}

// replay is nil if a move is not possible, or if no promise is broken.
func replay[S comparable](w world[S], made []move) *failure {
	f := new(failure)
	s := w.begin()
	for _, m := range made {
		if !slices.Contains(w.moves(s, nil), m) {
			return nil
		}
		f.moves = append(f.moves, w.tell(s, m))
		s, f.bad = w.apply(s, m)
		if f.bad != "" {
			return f
		}
	}
	return nil
}
