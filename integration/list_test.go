//go:build unix

package integration

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance/step"
	"github.com/fencedlock/locker/integration/internal/itest"
)

// A list of more locks than a page has shows each of them once. The time that it takes is logged;
// below LOCKER_SOAK it is for 10,000 locks, as far as the service has room for them.
func TestListOfManyLocks(t *testing.T) {
	itest.NeedServers(t)
	for _, tc := range []struct {
		backend string
		room    int // how many locks the service has room for; 0: any
		names   bool
	}{
		{"redis", 0, true},
		{"redlock", 0, true},
		{"etcd", 0, true},
		{"zookeeper", 0, true},
		{"postgres", 6000, false},
	} {
		t.Run(tc.backend, func(t *testing.T) {
			want := 1200
			if os.Getenv("LOCKER_SOAK") != "" {
				want = 10_000
			}
			if tc.room > 0 {
				want = min(want, tc.room)
			}
			open := func() locker.Locker { return step.CloseAtEnd(t, itest.OpenURL(t, serviceURL(t, tc.backend))) }
			l, looker, base := open(), open(), step.LockName(t)
			const workers = 32
			jobs := make(chan int, want)
			for i := range want {
				jobs <- i
			}
			close(jobs)
			step.Contend(t, workers, 1, func(ctx context.Context, _ int) error {
				for i := range jobs {
					if _, err := l.Acquire(ctx, fmt.Sprintf("%s/%d", base, i), locker.NoWait()); err != nil {
						return err
					}
				}
				return nil
			})
			prefix := ""
			if tc.names {
				prefix = base + "/"
			}
			for range 3 {
				began, seen := time.Now(), make(map[string]bool)
				for s, err := range locker.List(t.Context(), looker, prefix, 1) {
					if err != nil {
						t.Fatalf("List = %v", err)
					}
					if s.Holder == nil || seen[s.Key] {
						t.Errorf("List shows %+v without a holder, or twice", s)
					}
					seen[s.Key] = true
				}
				t.Logf("%s: a list of %d locks took %v", tc.backend, len(seen), time.Since(began).Round(time.Millisecond))
				if len(seen) < want || tc.names && len(seen) > want {
					t.Errorf("List shows %d locks, want %d", len(seen), want)
				}
			}
			began := time.Now()
			s, err := locker.Inspect(t.Context(), looker, base+"/7", 1)
			if err != nil || s.Holder == nil {
				t.Errorf("Inspect = %+v, %v, want a holder", s, err)
			}
			t.Logf("%s: a look at one of them took %v", tc.backend, time.Since(began).Round(10*time.Microsecond))
		})
	}
}
