package etcdbackend_test

import (
	"slices"
	"testing"

	"github.com/fencedlock/locker/etcdbackend"
)

// What may have been missed between two streams is read: the keys of holders, once for all of them,
// and by a waiter that is far from the head, which joins those near it.
func TestAfterANewStream(t *testing.T) {
	rechecked, near := etcdbackend.AfterANewStream(2)
	if want := []int{2}; !slices.Equal(rechecked, want) {
		t.Errorf("the keys of %v holders are read, want those of %v at once", rechecked, want)
	}
	if !near {
		t.Error("the waiter doesn't join those near the head when its watch begins again, and no earlier")
	}
}
