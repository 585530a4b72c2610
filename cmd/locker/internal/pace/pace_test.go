package pace

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

func TestSlowLooksAreRare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		takes := []time.Duration{0, 100 * time.Millisecond, time.Second, 0}
		began := time.Now()
		var at []time.Duration
		Repeat(ctx, 2*time.Second, func(context.Context) {
			at = append(at, time.Since(began))
			time.Sleep(takes[len(at)-1])
			if len(at) == len(takes) {
				cancel()
			}
		})
		want := []time.Duration{0, 2 * time.Second, 4100 * time.Millisecond, 15100 * time.Millisecond}
		if !slices.Equal(at, want) {
			t.Errorf("looks began at %v, want %v", at, want)
		}
		if took := time.Since(began); took != want[3] {
			t.Errorf("it ended after %v, want %v: a context that has ended needs no pause", took, want[3])
		}
	})
}
