package membackend_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/membackend"
)

// BenchmarkAcquireRelease is a lock without contention, with a context that can be cancelled.
func BenchmarkAcquireRelease(b *testing.B) {
	l := membackend.New()
	defer l.Close()
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	b.ReportAllocs()
	for b.Loop() {
		lease, err := l.Acquire(ctx, "name")
		if err != nil {
			b.Fatal(err)
		}
		if err := lease.Release(ctx); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkHandOff is one lock that several Lockers pass around; an operation is one lease.
func BenchmarkHandOff(b *testing.B) {
	for _, n := range []int{2, 16, 64} {
		b.Run(fmt.Sprintf("contenders=%d", n), func(b *testing.B) {
			s := membackend.NewServer()
			tickets := make(chan struct{})
			errs := make(chan error, n)
			for range n {
				l := membackend.New(membackend.WithServer(s))
				b.Cleanup(func() { _ = l.Close() })
				go func() { errs <- passOn(b.Context(), l, tickets) }()
			}
			b.ReportAllocs()
			for b.Loop() {
				tickets <- struct{}{}
			}
			close(tickets)
			for range n {
				if err := <-errs; err != nil {
					b.Error(err)
				}
			}
		})
	}
}

func passOn(ctx context.Context, l locker.Locker, tickets <-chan struct{}) error {
	for {
		lease, err := l.Acquire(ctx, "name")
		if err != nil {
			return err
		}
		_, more := <-tickets
		if err := lease.Release(ctx); err != nil || !more {
			return err
		}
	}
}
