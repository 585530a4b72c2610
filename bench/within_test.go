package main

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestWithin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := make(chan struct{})
		defer close(hang)
		var late givenUp
		failed := errors.New("failed")
		began := time.Now()

		n, err := within(t.Context(), time.Second, func(context.Context) (int, error) { return 7, nil })
		if n != 7 || err != nil {
			t.Errorf("within = %d, %v, want 7 and no error", n, err)
		}
		_, err = within(t.Context(), time.Second, func(context.Context) (int, error) { return 0, failed })
		if !errors.Is(err, failed) {
			t.Errorf("within = %v, want %v", err, failed)
		}
		_, err = within(t.Context(), time.Second, func(ctx context.Context) (int, error) { <-ctx.Done(); return 0, ctx.Err() })
		if !errors.As(err, &late) || time.Since(began) != time.Second {
			t.Errorf("within = %v after %v, want it given up after 1s", err, time.Since(began))
		}
		_, err = within(t.Context(), time.Second, func(context.Context) (int, error) { <-hang; return 0, nil })
		if !errors.As(err, &late) || time.Since(began) != 2*time.Second+graceTime {
			t.Errorf("within = %v after %v for what doesn't end, want it given up", err, time.Since(began))
		}
		ended, end := context.WithCancel(t.Context())
		end()
		_, err = within(ended, time.Second, func(ctx context.Context) (int, error) { return 0, ctx.Err() })
		if !errors.Is(err, context.Canceled) || errors.As(err, &late) {
			t.Errorf("within = %v after the run was interrupted, want that", err)
		}
	})
}
