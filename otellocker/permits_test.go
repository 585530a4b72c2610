package otellocker_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/membackend"
	"github.com/fencedlock/locker/otellocker"
)

// A permit that is waited for is one call that waits, and no lease: also while its call has the line's lock, and goes
// from the queues of some slots to the next ones.
func TestMetricsOfAPermitThatIsWaitedFor(t *testing.T) {
	const limit = 5
	for group, opts := range map[string][]otellocker.Option{"": nil, "pools": {otellocker.WithNames(firstPart)}} {
		synctest.Test(t, func(t *testing.T) {
			s, m := membackend.NewServer(), newMeters()
			other, l := membackend.New(membackend.WithServer(s)), membackend.New(membackend.WithServer(s))
			defer other.Close()
			instrument(t, l, append(opts, otellocker.WithMeterProvider(m))...)
			for range limit {
				if _, err := locker.TryAcquirePermit(t.Context(), other, "pools/1", limit); err != nil {
					t.Fatal(err)
				}
			}
			go func() { _, _ = locker.AcquirePermit(t.Context(), l, "pools/1", limit) }()
			const waits = 5*time.Minute + 1100*time.Millisecond // not while it looks at other slots
			time.Sleep(waits)
			now := m.collect(t)
			wantPoint(t, now, "locker.acquire.waiting", group, int64(1))
			wantPoint(t, now, "locker.acquire.oldest_wait", group, waits.Seconds())
			wantPoint(t, now, "locker.lease.active", group, int64(0))
			wantPoint(t, now, "locker.lease.oldest", group, 0.0)
			_ = l.Close()
		})
	}
}
