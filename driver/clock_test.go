package driver

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestInstants(t *testing.T) {
	for _, tc := range []struct {
		at   Instant
		add  time.Duration
		want Instant
	}{
		{0, 0, 0},
		{5, 7, 12},
		{5, -7, -2},
		{-5, 7, 2},
		{Never - 1, 1, Never},
		{Never - 1, 2, Never},
		{Never, time.Hour, Never},
		{1, 1<<63 - 1, Never},
	} {
		if got := tc.at.Add(tc.add); got != tc.want {
			t.Errorf("%d.Add(%d) = %d, want %d", tc.at, tc.add, got, tc.want)
		}
	}
	if d := Instant(12).Sub(-5); d != 17 {
		t.Errorf("Sub = %d, want 17", d)
	}
}

func TestTheSystemsClocksAgree(t *testing.T) {
	// Most likely nothing was suspended while the tests ran. The reading may be too small, never
	// too large.
	if d := systemSuspended(); d > time.Second || d < -time.Second {
		t.Errorf("the system was suspended for %v, want about nothing", d)
	}
	synctest.Test(t, func(*testing.T) {
		time.Sleep(24 * time.Hour)
		if d := systemSuspended(); d > time.Second || d < -time.Second {
			t.Errorf("a bubble's time counts as a suspension of %v", d)
		}
	})
}

// A reading of the system's clocks may be too small. What is known of suspensions doesn't shrink
// because of it.
func TestAReadingThatIsTooSmall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before, exact := Now(), suspended
		suspended = func() time.Duration { return exact() - time.Second }
		defer func() { suspended = exact }()
		if got := Now(); got != before {
			t.Errorf("Now moved by %v, want it not to move", got.Sub(before))
		}
	})
}
