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
