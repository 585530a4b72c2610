package kit_test

import (
	"context"
	"errors"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	errService = errors.New("the service is down")
	errCause   = errors.New("the caller's reason")
)

// matches fails the test unless err matches all of want.
func matches(t testing.TB, what string, err error, want ...error) {
	t.Helper()
	for _, w := range want {
		if !errors.Is(err, w) {
			t.Errorf("%s = %v, want it to match %v", what, err, w)
		}
	}
}

// matchesNone fails the test when err matches one of unwanted.
func matchesNone(t testing.TB, what string, err error, unwanted ...error) {
	t.Helper()
	for _, u := range unwanted {
		if errors.Is(err, u) {
			t.Errorf("%s = %v, which must not match %v", what, err, u)
		}
	}
}

// hang is a message that ends only with its context.
func hang(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}
