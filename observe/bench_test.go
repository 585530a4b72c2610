package observe_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/membackend"
	"github.com/fencedlock/locker/observe"
)

// BenchmarkStatsOf is a look at a locker with many leases.
func BenchmarkStatsOf(b *testing.B) {
	for _, leases := range []int{1, 10_000} {
		b.Run(fmt.Sprint(leases), func(b *testing.B) {
			l := membackend.New(membackend.WithDefaultTTL(time.Hour))
			defer l.Close()
			for i := range leases {
				if _, err := l.Acquire(b.Context(), fmt.Sprint(i)); err != nil {
					b.Fatal(err)
				}
			}
			for b.Loop() {
				if s, _ := locker.StatsOf(l); s.Held != leases {
					b.Fatalf("Held = %d", s.Held)
				}
			}
		})
	}
}

// BenchmarkLeaks is Acquire and Release, and what Leaks adds to that, without its work in the
// background.
func BenchmarkLeaks(b *testing.B) {
	for _, looks := range []bool{false, true} {
		b.Run(fmt.Sprint(looks), func(b *testing.B) {
			l := membackend.New()
			defer l.Close()
			if looks {
				stop, err := observe.Leaks(l, time.Hour, 0, func(observe.Leak) {})
				if err != nil {
					b.Fatal(err)
				}
				defer stop()
			}
			for b.Loop() {
				if err := locker.Do(b.Context(), l, "name", nothing); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkPlace is what Leaks does on the goroutine of the caller of Acquire.
func BenchmarkPlace(b *testing.B) {
	c := &captured{Locker: membackend.New()}
	defer c.Close()
	stop, err := observe.Leaks(c, time.Hour, 0, func(observe.Leak) {})
	if err != nil {
		b.Fatal(err)
	}
	defer stop()
	for b.Loop() {
		c.tracer.Begin(b.Context(), locker.Request{Name: "name"})
	}
}

// captured is a locker that hands out its observer.
type captured struct {
	locker.Locker
	tracer locker.Tracer
}

func (c *captured) Observe(o locker.Observer, _ locker.EventKind) (stop func(), err error) {
	c.tracer = o.(locker.Tracer)
	return func() {}, nil
}

func (c *captured) Stats() (locker.Stats, bool)        { return locker.StatsOf(c.Locker) }
func (c *captured) Leases() ([]locker.LeaseInfo, bool) { return locker.Leases(c.Locker) }
