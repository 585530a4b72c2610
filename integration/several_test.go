//go:build unix

package integration

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance/step"
	"github.com/fencedlock/locker/integration/internal/itest"
)

// Random sets of twelve locks, by eight goroutines in four Lockers: nobody is stuck, two are never in at the
// same time, and nothing is left. Below LOCKER_SOAK there are 10,000 calls.
func TestRandomSetsOfLocks(t *testing.T) {
	itest.NeedServers(t)
	total := 1000
	if os.Getenv("LOCKER_SOAK") != "" {
		total = 10_000
	}
	for _, backend := range []string{"redis", "postgres"} {
		t.Run(backend, func(t *testing.T) {
			const contenders, locks, most = 8, 12, 5
			base := step.LockName(t)
			var lockers []locker.Locker
			for range 4 {
				lockers = append(lockers, step.CloseAtEnd(t, itest.OpenURL(t, serviceURL(t, backend))))
			}
			var inside [locks]atomic.Int32
			var slowest atomic.Int64
			began := time.Now()
			step.Contend(t, contenders, total/contenders, func(ctx context.Context, i int) error {
				picked := rand.Perm(locks)[:1+rand.IntN(most)]
				var wants []locker.Want
				for _, k := range picked {
					wants = append(wants, locker.Want{Name: fmt.Sprintf("%s/%d", base, k)})
				}
				asked := time.Now()
				return locker.DoAll(ctx, lockers[i%len(lockers)], wants, func(context.Context, *locker.LeaseSet) error {
					took := int64(time.Since(asked))
					for old := slowest.Load(); took > old && !slowest.CompareAndSwap(old, took); old = slowest.Load() {
					}
					for _, k := range picked {
						if n := inside[k].Add(1); n != 1 {
							return fmt.Errorf("%d have lock %d", n, k)
						}
					}
					for _, k := range picked {
						inside[k].Add(-1)
					}
					return nil
				})
			})
			took := time.Since(began)
			for k := range locks {
				step.FreeWithin(t, step.Limit, lockers[0], fmt.Sprintf("%s/%d", base, k))
			}
			t.Logf("%d calls of AcquireAll in %v, %v for each; the slowest took %v", total, took.Round(time.Millisecond),
				(took / time.Duration(total)).Round(time.Microsecond), time.Duration(slowest.Load()).Round(time.Millisecond))
		})
	}
}
