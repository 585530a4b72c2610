package driver_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
)

// Where a service is several servers and one of them is silent, removals on the others don't wait for
// those on that one.
func TestRemovalsWhileOneServerIsSilent(t *testing.T) {
	const silent = 200 // removals; the engine makes 16 calls at a time, of 5 s each
	bubble(t, func(t *testing.T) {
		f := &fake{leaves: true}
		f.acquire = func(_ context.Context, l *fakeLock) (driver.Grant, error) {
			switch word, _, _ := strings.Cut(l.req.Name, " "); word {
			case "silent":
				return grant(l), nil
			case "unanswered":
				return driver.Grant{}, locker.ErrNoAnswer
			}
			return driver.Grant{}, errService
		}
		f.release = func(ctx context.Context, l *fakeLock) error {
			switch {
			case strings.HasPrefix(l.req.Name, "silent"), strings.HasPrefix(l.req.Name, "unanswered"):
				return hang(ctx)
			case l.req.Name == "refused at first" && l.count(&l.releases) < 4:
				return errService
			}
			return nil
		}
		l := open(t, f)
		for i := range silent {
			mustAcquire(t, l, fmt.Sprint("silent ", i), locker.WithoutRenewal())
		}
		for i := range 10 * silent {
			_, err := l.Acquire(t.Context(), fmt.Sprint("unanswered ", i))
			matches(t, "Acquire", err, locker.ErrNoAnswer)
		}
		time.Sleep(ttl) // they are lost just before that
		for range 10 {
			for name, most := range map[string]time.Duration{
				"at once":          0,
				"refused at first": 105 * time.Millisecond, // three pauses
			} {
				_, err := l.Acquire(t.Context(), name)
				matches(t, "Acquire", err, errService)
				time.Sleep(most)
				synctest.Wait()
				if n := len(f.prepared()); !f.lock(n - 1).isRemoved() {
					t.Errorf("%q: not removed after %v", name, most)
				}
			}
			time.Sleep(7 * time.Second)
		}
	})
}

// A renewal by hand that had no answer says nothing any more when a later one was answered.
func TestRemovalOfALeaseThatWasRenewedAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var byHand atomic.Bool
		f := &fake{leaves: true}
		f.renew = func(ctx context.Context, _ *fakeLock) (driver.Instant, error) {
			if byHand.Load() {
				return 0, hang(ctx)
			}
			return driver.Now(), nil
		}
		f.release = func(ctx context.Context, l *fakeLock) error {
			if l.req.Name == "well" {
				return nil
			}
			return hang(ctx)
		}
		l := open(t, f)
		lease := mustAcquire(t, l, "well", locker.WithMaxHold(time.Hour))
		byHand.Store(true)
		ctx, cancel := context.WithTimeout(callerContext(t), time.Millisecond)
		defer cancel()
		matches(t, "Renew", lease.Renew(ctx), locker.ErrNoAnswer)
		byHand.Store(false)
		time.Sleep(time.Hour - 2*ttl)
		for i := range 200 {
			mustAcquire(t, l, fmt.Sprint("silent ", i), locker.WithoutRenewal())
		}
		<-lease.Done()
		synctest.Wait()
		if !f.lock(0).isRemoved() {
			t.Error("the removal waits for others")
		}
	})
}

// What was lost because renewals had no answer is removed by few calls at a time.
func TestRemovalsAfterRenewalsWithoutAnAnswer(t *testing.T) {
	const many, few = 1000, 16
	bubble(t, func(t *testing.T) {
		var going, peak atomic.Int64
		f := &fake{
			leaves: true,
			renew:  func(ctx context.Context, _ *fakeLock) (driver.Instant, error) { return 0, hang(ctx) },
			release: func(ctx context.Context, _ *fakeLock) error {
				peak.Store(max(peak.Load(), going.Add(1)))
				defer going.Add(-1)
				return hang(ctx)
			},
		}
		l := open(t, f)
		for i := range many {
			mustAcquire(t, l, fmt.Sprint(i))
		}
		time.Sleep(2 * ttl)
		if n := peak.Load(); n != few {
			t.Errorf("%d calls of Release at once, want %d", n, few)
		}
	})
}
