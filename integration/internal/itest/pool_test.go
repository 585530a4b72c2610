//go:build unix

package itest

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/fencedlock/locker/conformance"
)

// All services that the cases of a pool need are started before the first case runs.
func TestPoolIsFilledBeforeTheFirstCase(t *testing.T) {
	const cases = 3
	var started atomic.Int32
	pool := LazyPool("no image", func(context.Context, string) (int32, error) { return started.Add(1), nil })(t)
	h := pool.SideBySide(func(t conformance.T, _ *conformance.Harness, _ int32) {
		if n := started.Load(); n != cases {
			t.Errorf("%d services are started, want %d", n, cases)
		}
	})
	t.Run("cases", func(t *testing.T) {
		for i := range cases {
			t.Run(fmt.Sprintf("A%d-case", i), func(t *testing.T) {
				h.Wrap(t, func(t *testing.T) { h.Setup(t, &h) })
			})
		}
	})
}
