package driver_test

import (
	"context"
	"testing"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
)

// A wait with the context of the very lease that is waited for could never succeed. It is an error,
// not an outage.
func TestAcquireOfOwnLock(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := &fake{}
		l := open(t, f)
		type key struct{}
		err := locker.Do(t.Context(), l, "name", func(ctx context.Context, _ locker.Lease) error {
			child, cancel := context.WithTimeout(context.WithValue(ctx, key{}, 1), time.Hour)
			defer cancel()
			for what, ctx := range map[string]context.Context{"itself": ctx, "a child": child} {
				_, err := l.Acquire(ctx, "name")
				matches(t, "Acquire with the lease's context, "+what, err, locker.ErrHeldByCaller)
				matchesNone(t, "Acquire with the lease's context, "+what, err, locker.ErrHeld)
				_, err = locker.TryAcquire(ctx, l, "name")
				matches(t, "TryAcquire with the lease's context, "+what, err, locker.ErrHeldByCaller)
				matchesNone(t, "Acquire with the lease's context, "+what, err, locker.ErrHeld)
			}
			// Another lock in between doesn't hide it.
			return locker.Do(ctx, l, "other", func(ctx context.Context, _ locker.Lease) error {
				_, err := l.Acquire(ctx, "name")
				matches(t, "Acquire below another lease", err, locker.ErrHeldByCaller)
				return nil
			})
		})
		if err != nil {
			t.Fatal(err)
		}
		if n := len(f.prepared()); n != 2 {
			t.Errorf("%d acquisitions reached the driver, want the 2 that could succeed", n)
		}
	})
}

// What could succeed is not refused: another name, another Locker, a lease that has ended, a
// context that outlives it.
func TestAcquireThatIsNotOfOwnLock(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l, other := open(t, &fake{}), open(t, &fake{})
		lease := mustAcquire(t, l, "name")
		ctx, cancel := locker.WithLease(t.Context(), lease)
		defer cancel()
		for what, acquire := range map[string]func() (locker.Lease, error){
			"another name":           func() (locker.Lease, error) { return l.Acquire(ctx, "name2") },
			"another Locker":         func() (locker.Lease, error) { return other.Acquire(ctx, "name") },
			"a detached context":     func() (locker.Lease, error) { return l.Acquire(context.WithoutCancel(ctx), "name") },
			"a context from outside": func() (locker.Lease, error) { return l.Acquire(t.Context(), "name") },
		} {
			if _, err := acquire(); err != nil { // this driver grants whatever it is asked for
				t.Errorf("%s: %v", what, err)
			}
		}
		if err := lease.Release(ctx); err != nil {
			t.Fatal(err)
		}
		_, err := l.Acquire(ctx, "name")
		matches(t, "Acquire after the release", err, context.Canceled)
	})
}

// Decorators around a Locker don't hide the lease.
func TestAcquireOfOwnLockThroughADecorator(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := open(t, &fake{})
		based, err := locker.TokenBase(l, 1000)
		if err != nil {
			t.Fatal(err)
		}
		for what, pair := range map[string][2]locker.Locker{
			"outside and inside": {based, based}, "outside": {based, l}, "inside": {l, based},
		} {
			err := locker.Do(t.Context(), pair[0], "name", func(ctx context.Context, _ locker.Lease) error {
				_, err := pair[1].Acquire(ctx, "name")
				return err
			})
			matches(t, "decorated "+what, err, locker.ErrHeldByCaller)
		}
	})
}

// hiding is a decorator that doesn't offer the lease below it.
type hiding struct{ locker.Lease }

// A context may come from a lease that is none of this package's: no lock is refused because of it.
func TestAcquireUnderALeaseOfAnotherKind(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := open(t, &fake{})
		ctx, cancel := locker.WithLease(t.Context(), hiding{mustAcquire(t, l, "name")})
		defer cancel()
		if _, err := l.Acquire(ctx, "name"); err != nil { // this driver grants whatever it is asked for
			t.Errorf("Acquire = %v", err)
		}
	})
}

// A lease that has ended refuses nothing, although a context may notice its end a moment later.
func TestAcquireUnderALeaseThatHasJustEnded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := open(t, &fake{})
		ctx, cancel := locker.WithLease(t.Context(), mustAcquire(t, l, "name", locker.WithoutRenewal()))
		defer cancel()
		child, cancelChild := context.WithCancel(ctx)
		defer cancelChild()
		driver.Suspend(ttl)
		_, err := l.Acquire(child, "name")
		matchesNone(t, "Acquire", err, locker.ErrHeldByCaller)
	})
}
