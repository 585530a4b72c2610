package driver_test

import (
	"context"
	"testing"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
)

func TestHungRenewalDoesNotDelayTheDeadline(t *testing.T) {
	for _, tc := range []struct {
		name  string
		renew func(gate chan struct{}) func(context.Context, *fakeLock) (driver.Instant, error)
		cause error
	}{
		{"the driver obeys its context", func(chan struct{}) func(context.Context, *fakeLock) (driver.Instant, error) {
			return func(ctx context.Context, _ *fakeLock) (driver.Instant, error) { return 0, hang(ctx) }
		}, context.DeadlineExceeded},
		{"the driver ignores its context", func(gate chan struct{}) func(context.Context, *fakeLock) (driver.Instant, error) {
			return func(context.Context, *fakeLock) (driver.Instant, error) {
				<-gate
				return driver.Now(), nil
			}
		}, nil},
		{"the service refuses", func(chan struct{}) func(context.Context, *fakeLock) (driver.Instant, error) {
			return func(context.Context, *fakeLock) (driver.Instant, error) { return 0, errService }
		}, errService},
	} {
		t.Run(tc.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				gate := make(chan struct{})
				f := &fake{renew: tc.renew(gate)}
				l := open(t, f)
				began := time.Now()
				lease := mustAcquire(t, l, "name")
				if d := lease.Deadline(); !d.Equal(began.Add(validity)) {
					t.Errorf("Deadline = %v, want %v after the request", d.Sub(began), validity)
				}
				err := endsAt(t, lease, began, validity)
				matches(t, "Err", err, locker.ErrLost)
				if tc.cause != nil {
					matches(t, "Err", err, tc.cause)
				}
				close(gate)
				if err := lease.Release(t.Context()); err.Error() != lease.Err().Error() {
					t.Errorf("Release after the loss = %v, want %v", err, lease.Err())
				}
			})
		})
	}
}
