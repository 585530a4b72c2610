package main

import (
	"context"
	"errors"
	"testing"
	"time"
)

func TestMeasuringEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	d := &disturbance{timeLeft: time.Hour}
	if _, err := d.measureUndisturbed(ctx, func() error { cancel(); return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("during = %v after the context has ended, want its error", err)
	}
	failed := errors.New("failed")
	if _, err := d.measureUndisturbed(t.Context(), func() error { return failed }); !errors.Is(err, failed) {
		t.Errorf("during = %v, want %v", err, failed)
	}
}

func TestOtherWork(t *testing.T) {
	const all = time.Second
	before := look{at: time.Now(), use: cpuUse{client: time.Hour, server: time.Hour}, helpers: time.Hour}
	after := before
	after.at = before.at.Add(all)
	after.use.client += all / 10
	after.use.server += all / 5
	after.helpers += time.Duration(cpus)*all - all/2
	if other := after.otherSince(before); other != all/5 {
		t.Errorf("otherSince = %v, want what clients, servers and helpers have left: %v", other, all/5)
	}
	for share, want := range map[float64]bool{0.09: false, 0.11: true} {
		now := before
		now.at = before.at.Add(all)
		now.helpers += time.Duration((1 - share) * float64(cpus) * float64(all))
		d := &disturbance{awake: awakeCPUs{nil}}
		if got := d.disturbedBetween(before, now); got != want {
			t.Errorf("with %v of the CPUs' time disturbed = %v, want %v", share, got, want)
		}
	}
}
