package etcdbackend_test

import (
	"errors"
	"testing"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/etcdbackend"
)

// A waiter is on its way to take its turn while the watch of its name tells which keys are gone. It doesn't get the lock when its
// own is among them, and never takes its key to have stood later than it did.
func TestDeletedTogether(t *testing.T) {
	type del = etcdbackend.Deletion
	for _, c := range []struct {
		why       string
		deletions []del
		lost      bool
		stood     int64
	}{
		{"the key before it", []del{{"a", 9}}, false, 9},
		{"both in one revision", []del{{"a", 9}, {"me", 9}}, true, 9},
		{"both in one revision, the own one first", []del{{"me", 9}, {"a", 9}}, true, 5},
		{"the own one, and then the one before it", []del{{"me", 8}, {"a", 9}}, true, 5},
		{"the one before it, and then the own one", []del{{"a", 8}, {"me", 9}}, true, 8},
	} {
		stood, told, err := etcdbackend.GrantedAfter(5, c.deletions...)
		if c.lost != errors.Is(err, locker.ErrLost) || c.lost != errors.Is(told, locker.ErrLost) {
			t.Errorf("%s: it is granted with %v, and the engine told %v, want lost %v", c.why, err, told, c.lost)
		}
		if stood != c.stood {
			t.Errorf("%s: the key is known to have stood at %d, want %d", c.why, stood, c.stood)
		}
	}
}
