package driver_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
)

// answersLate is a driver that waits for the answers of renewals longer than it is asked to.
type answersLate struct {
	*fake
	after  time.Duration
	answer func(sent driver.Instant) (base driver.Instant, err error)
}

func openLate(t *testing.T, f *fake, after time.Duration, answer func(driver.Instant) (driver.Instant, error)) locker.Locker {
	t.Helper()
	f.t, f.leaves = t, true
	l := driver.New(&answersLate{f, after, answer}, driver.Config{TTL: ttl, Features: locker.FeatureTTL, ObeysContext: obeysContext})
	f.engine = l
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Errorf("Close = %v", err)
		}
	})
	return l
}

func (d *answersLate) Renew(ctx context.Context, locks []driver.Lock, report func(int, driver.Instant, error)) {
	sent := driver.Stamp()
	time.AfterFunc(d.after, func() {
		for i := range locks {
			base, err := d.answer(sent)
			report(i, base, err)
		}
	})
	<-ctx.Done()
}

// Each renewal is answered after the next one has begun. The lease stays held all the same, and its
// deadline counts from when the one that was answered was sent.
func TestRenewalsAnsweredLate(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var newest atomic.Int64 // when the renewal was sent that was answered last
		newest.Store(int64(driver.Stamp()))
		l := openLate(t, &fake{}, ttl/2, func(sent driver.Instant) (driver.Instant, error) {
			newest.Store(int64(sent))
			return sent, nil
		})
		lease := mustAcquire(t, l, "name")
		for range 100 {
			time.Sleep(ttl/10 + time.Millisecond)
			if err := lease.Err(); err != nil {
				t.Fatalf("Err = %v", err)
			}
			left, want := time.Until(lease.Deadline()), driver.Instant(newest.Load()).Add(validity).Sub(driver.Stamp())
			if left != want {
				t.Fatalf("the deadline is in %v, want %v", left, want)
			}
		}
		stats, _ := locker.StatsOf(l)
		if stats.Renewed == 0 || stats.RenewalsFailed == 0 {
			t.Errorf("%d renewals are counted, and %d that failed, want both", stats.Renewed, stats.RenewalsFailed)
		}
	})
}

// A late answer that the lease is lost ends it at once.
func TestALossThatIsReportedLate(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := openLate(t, &fake{}, ttl/2, func(driver.Instant) (driver.Instant, error) { return 0, locker.ErrLost })
		lease := mustAcquire(t, l, "name")
		began := time.Now()
		<-lease.Done()
		if d := time.Since(began); d >= validity || d < ttl/2 {
			t.Errorf("lost after %v, want less than %v", d, validity)
		}
		matches(t, "Err", lease.Err(), locker.ErrLost)
	})
}

// An answer that comes after the end of the lease has no effect, and an error says nothing.
func TestRenewalsAnsweredTooLate(t *testing.T) {
	for _, err := range []error{nil, errService} {
		bubble(t, func(t *testing.T) {
			after := 2 * ttl
			if err != nil {
				after = ttl / 2
			}
			l := openLate(t, &fake{}, after, func(sent driver.Instant) (driver.Instant, error) { return sent, err })
			lease := mustAcquire(t, l, "name")
			matches(t, "Err", endsAt(t, lease, time.Now(), validity), locker.ErrLost)
			time.Sleep(3 * ttl)
			matches(t, "Err", lease.Err(), locker.ErrLost)
		})
	}
}

// A grant is verified by renewals that are answered late. The first answer confirms it, and the next ones
// count for the lease, though they were sent before the caller had it.
func TestAGrantThatIsVerifiedLate(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var newest atomic.Int64 // when the renewal was sent that was answered last
		f := &fake{acquire: func(_ context.Context, l *fakeLock) (driver.Grant, error) { return stamped(ttl)(l), nil }}
		l := openLate(t, f, ttl*2/5, func(sent driver.Instant) (driver.Instant, error) {
			newest.Store(int64(sent))
			return sent, nil
		})
		w := watch(t, l)
		lease := mustAcquire(t, l, "name")
		synctest.Wait()
		if events := w.take(); events[0].Kind != locker.EventGranted {
			t.Errorf("the first event is %v, want the grant", events[0].Kind)
		}
		for range 20 {
			if err := lease.Err(); err != nil {
				t.Fatalf("Err = %v", err)
			}
			left, want := time.Until(lease.Deadline()), driver.Instant(newest.Load()).Add(validity).Sub(driver.Stamp())
			if left != want {
				t.Fatalf("the deadline is in %v, want %v", left, want)
			}
			time.Sleep(ttl/10 + time.Millisecond)
		}
	})
}

// A late answer that the grant is lost ends its verification. The wait goes on.
func TestAGrantThatIsLostLate(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := &fake{acquire: func(_ context.Context, l *fakeLock) (driver.Grant, error) {
			if l.n > 0 {
				return grant(l), nil
			}
			return stamped(ttl)(l), nil
		}}
		l := openLate(t, f, ttl*2/5, func(driver.Instant) (driver.Instant, error) { return 0, locker.ErrLost })
		began := time.Now()
		if lease := mustAcquire(t, l, "name"); lease.Token() != 2 {
			t.Errorf("token %v, want the second grant's", lease.Token())
		}
		if d := time.Since(began); d > ttl {
			t.Errorf("it took %v, want less than a TTL", d)
		}
	})
}

// The renewal of a place in the queue that is answered after the grant doesn't count for the lease:
// the service may count the grant from an older refresh.
func TestALateAnswerFromBeforeTheGrant(t *testing.T) {
	bubble(t, func(t *testing.T) {
		grants := make(chan func(*fakeLock) driver.Grant)
		f := &fake{acquire: queues(grants)}
		l := openLate(t, f, ttl/2, func(driver.Instant) (driver.Instant, error) { return driver.Stamp(), nil })
		p := start(t, l, "name", locker.WithoutRenewal())
		time.Sleep(ttl/3 + ttl/10) // the place is being renewed
		synctest.Wait()
		grants <- func(*fakeLock) driver.Grant { return driver.Grant{Token: 1, Base: driver.Stamp(), TTL: ttl} }
		lease := p.granted()
		matches(t, "Err", endsAt(t, lease, time.Now(), validity), locker.ErrLost)
	})
}

// slowError takes a moment to compare itself with another error.
type slowError struct{ error }

func (slowError) Is(error) bool {
	time.Sleep(100 * time.Millisecond)
	return false
}

// A report that the driver makes at the moment when Renew returns is processed to its end, before the
// caller is told how the renewal ended.
func TestReportsWhileRenewReturns(t *testing.T) {
	f := &fake{t: t, leaves: true}
	l := driver.New(reportsAtTheEnd{f}, driver.Config{TTL: time.Minute, Features: locker.FeatureTTL})
	f.engine = l
	defer l.Close()
	lease := mustAcquire(t, l, "name", locker.WithoutRenewal())
	if err := lease.Renew(callerContext(t)); err == nil {
		t.Error("Renew = nil, and the driver has reported an error")
	}
}

type reportsAtTheEnd struct{ *fake }

func (d reportsAtTheEnd) Renew(ctx context.Context, _ []driver.Lock, report func(int, driver.Instant, error)) {
	go report(0, 0, slowError{errService})
	time.Sleep(10 * time.Millisecond)
}
