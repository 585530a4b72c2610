package etcdbackend_test

import (
	"testing"
	"time"

	"github.com/fencedlock/locker/etcdbackend"
)

// A renewal asks for a keepalive, unless there is one that nothing has proved yet, and that is
// worth proving.
func TestHasUnproved(t *testing.T) {
	const age = time.Minute
	for _, c := range []struct {
		why        string
		base, beat time.Duration // ago
		over, want bool
	}{
		{"the one that was proved, or a Grant", 10 * time.Second, 10 * time.Second, false, false},
		{"a later one that wasn't", 90 * time.Second, 10 * time.Second, false, true},
		{"one that is too old", 90 * time.Second, 80 * time.Second, false, false},
		{"one of an etcd lease that is over", 90 * time.Second, 10 * time.Second, true, false},
		{"an earlier one", 10 * time.Second, 20 * time.Second, false, false},
	} {
		if got := etcdbackend.HasUnproved(c.base, c.beat, age, c.over); got != c.want {
			t.Errorf("%s: %v, want %v", c.why, got, c.want)
		}
	}
}
