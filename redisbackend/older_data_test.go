package redisbackend_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
)

// A server that was started on older data, or a replica that takes over, may know a holder as one
// that waits, and grant the lock to somebody else and then to it again. Neither is the lease that
// its holder believes in.
func TestLeaseOfOlderData(t *testing.T) {
	for _, c := range []struct{ what, reply string }{
		{"the holder waits", queued},
		{"the lock was granted again", granted2},
	} {
		t.Run(c.what, func(t *testing.T) {
			f := newFake(t)
			f.answers(granted, granted, c.reply)
			d := f.driver(t, nil)
			l := newLock(t, d, time.Minute)
			if _, err := l.Acquire(t.Context()); err != nil {
				t.Fatal(err)
			}
			for _, lost := range []bool{false, true} {
				d.Renew(t.Context(), []driver.Lock{l}, func(_ int, _ driver.Instant, err error) {
					if errors.Is(err, locker.ErrLost) != lost {
						t.Errorf("Renew reports %v, want ErrLost: %v", err, lost)
					}
				})
			}
			f.answers(gone)
			if err := l.Release(t.Context()); err != nil {
				t.Errorf("Release = %v, want nil", err)
			}
			if got := f.called(); !slices.Equal(got, []string{"release"}) {
				t.Errorf("Release sent %q, want %q: the place, or the lock, is still there", got, "release")
			}
		})
	}
}
