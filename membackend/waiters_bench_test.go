package membackend_test

import (
	"testing"

	"github.com/fencedlock/locker/membackend"
)

// BenchmarkWaiters is 10,000 waiters on one name, in one Locker and in as many as there are
// waiters. An operation serves all of them, one after the other.
func BenchmarkWaiters(b *testing.B) {
	const waiters = 10_000
	for _, tc := range []struct {
		name    string
		lockers int
	}{
		{"one Locker", 1},
		{"100 Lockers", 100},
		{"10,000 Lockers", waiters},
	} {
		b.Run(tc.name, func(b *testing.B) {
			for b.Loop() {
				s := membackend.NewServer()
				errs := make(chan error, waiters)
				for range tc.lockers {
					l := membackend.New(membackend.WithServer(s))
					b.Cleanup(func() { _ = l.Close() })
					for range waiters / tc.lockers {
						go func() {
							lease, err := l.Acquire(b.Context(), "name")
							if err == nil {
								err = lease.Release(b.Context())
							}
							errs <- err
						}()
					}
				}
				for range waiters {
					if err := <-errs; err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(s.Requests())/waiters, "round-trips/grant")
			}
		})
	}
}
