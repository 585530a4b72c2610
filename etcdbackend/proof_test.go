package etcdbackend_test

import (
	"testing"

	"github.com/fencedlock/locker/etcdbackend"
)

// What proves a Base, and each way in which it may be missing. A moment is larger the later it is.
func TestProved(t *testing.T) {
	const s = 1000 // when the keepalive was sent
	for _, c := range []struct {
		why               string
		granted           uint64
		beatTerm          uint64
		heard, linearSent uint64
		linearTerm        uint64
		want              bool
	}{
		{"keepalive answered, then a linearizable answer in the same term", 5, 5, 10, 11, 5, true},
		{"much later, still the same term", 5, 5, 10, 999, 5, true},
		{"the linearizable request was sent in parallel with the keepalive", 5, 5, 10, 9, 5, false},
		{"it isn't known which was first", 5, 5, 10, 10, 5, false},
		{"a later leader answered the linearizable request", 5, 5, 10, 11, 6, false},
		{"the keepalive went to a member that knew of a later leader", 5, 6, 10, 11, 5, false},
		{"both say a later term", 5, 6, 10, 11, 6, false},
		{"the keepalive was answered by a member that has missed something", 5, 4, 10, 11, 5, false},
		{"the linearizable answer came from a member that has missed something", 5, 5, 10, 11, 4, false},
		{"both have missed something", 5, 4, 10, 11, 4, false},
		{"no keepalive was heard", 5, 5, 0, 11, 5, false},
		{"members that have just started, and know no term", 0, 0, 10, 11, 0, false},
	} {
		base, ok := etcdbackend.Proved(c.granted, s, c.beatTerm, c.heard, c.linearSent, c.linearTerm)
		if ok != c.want || ok && base != s {
			t.Errorf("%s: proved %v, %v, want %v", c.why, base, ok, c.want)
		}
	}
}

func TestGrantedIn(t *testing.T) {
	for _, c := range []struct {
		why         string
		known, term uint64
		want        bool
	}{
		{"the term was seen before, and is that of the answer", 5, 5, true},
		{"it was granted in 5 or in 6", 5, 6, false},
		{"the member that answered has missed something", 5, 4, false},
		{"no term was known", 0, 5, false},
		{"a member that knows no term", 0, 0, false},
	} {
		if got := etcdbackend.GrantedIn(c.known, c.term); got != c.want {
			t.Errorf("%s: %v, want %v", c.why, got, c.want)
		}
	}
}
