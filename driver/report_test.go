package driver_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
)

// A lease that was lost or released never comes back, whatever an answer under way says.
func TestAnswersAfterTheEndHaveNoEffect(t *testing.T) {
	for _, tc := range []struct {
		name string
		end  func(f *fake, lease locker.Lease)
		why  error
	}{
		{"lost", func(f *fake, _ locker.Lease) { f.tell(0, errRevoked) }, locker.ErrLost},
		{"released", func(_ *fake, lease locker.Lease) { lease.Release(context.Background()) }, locker.ErrReleased},
		{"expired", func(_ *fake, lease locker.Lease) { <-lease.Done() }, locker.ErrLost},
		{"expired while the machine slept", func(*fake, locker.Lease) { driver.Suspend(ttl) }, locker.ErrLost},
		{"expired while the machine slept, shortly before the answer", func(*fake, locker.Lease) { driver.Suspend(ttl/2 + time.Second) }, locker.ErrLost},
	} {
		for _, answer := range []error{nil, errService, locker.ErrLost} {
			t.Run(tc.name, func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					gate := make(chan struct{})
					f := &fake{renew: func(context.Context, *fakeLock) (driver.Instant, error) {
						base := driver.Stamp()
						<-gate
						return base, answer
					}}
					lease := mustAcquire(t, open(t, f), "name")
					time.Sleep(ttl / 2)
					tc.end(f, lease)
					close(gate)
					synctest.Wait()
					err := lease.Err()
					matches(t, "Err", err, tc.why)
					if d := time.Until(lease.Deadline()); d > ttl/2 {
						t.Errorf("the answer has moved the deadline to %v from now", d)
					}
					time.Sleep(ttl)
					if again := lease.Err(); again.Error() != err.Error() {
						t.Errorf("Err = %v, want it unchanged: %v", again, err)
					}
					if n := len(f.renewed()); n != 1 {
						t.Errorf("%d renewals, want one", n)
					}
				})
			})
		}
	}
}

// A lock without a report counts as failed: it is tried again, and never counts as a success.
func TestAMissingReportIsAFailure(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := &fake{renew: func(_ context.Context, l *fakeLock) (driver.Instant, error) {
			if l.req.Name == "forgotten" {
				return 0, errSilent
			}
			return driver.Stamp(), nil
		}}
		l := open(t, f)
		began := time.Now()
		forgotten, other := mustAcquire(t, l, "forgotten"), mustAcquire(t, l, "other")
		matches(t, "Err", endsAt(t, forgotten, began, validity), locker.ErrLost)
		if n := f.lock(0).count(&f.lock(0).renews); n < 5 {
			t.Errorf("%d tries, want some more", n)
		}
		if err := other.Err(); err != nil {
			t.Errorf("Err = %v of the lease that was reported", err)
		}
	})
}
