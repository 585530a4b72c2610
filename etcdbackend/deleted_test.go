package etcdbackend_test

import (
	"errors"
	"testing"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/etcdbackend"
)

// A waiter is on its way to take its turn while the watch of its name reports which keys are gone.
// It doesn't get the lock if its own key is among them, and never assumes that its key existed for
// longer than it did.
func TestDeletedTogether(t *testing.T) {
	type del = etcdbackend.Deletion
	for _, c := range []struct {
		why       string
		deletions []del
		lost      bool
		lastSeen  int64
	}{
		{"the key before it", []del{{"a", 9}}, false, 9},
		{"both in one revision", []del{{"a", 9}, {"me", 9}}, true, 9},
		{"both in one revision, the own one first", []del{{"me", 9}, {"a", 9}}, true, 5},
		{"the own one, and then the one before it", []del{{"me", 8}, {"a", 9}}, true, 5},
		{"the one before it, and then the own one", []del{{"a", 8}, {"me", 9}}, true, 8},
	} {
		lastSeen, lost, err := etcdbackend.GrantedAfter(5, c.deletions...)
		if c.lost != errors.Is(err, locker.ErrLost) || c.lost != errors.Is(lost, locker.ErrLost) {
			t.Errorf("%s: it is granted with %v, and reported as lost with %v, want lost %v", c.why, err, lost, c.lost)
		}
		if lastSeen != c.lastSeen {
			t.Errorf("%s: the key was last seen at %d, want %d", c.why, lastSeen, c.lastSeen)
		}
	}
}
