package redisconn_test

import (
	"math"
	"testing"
	"time"

	"github.com/fencedlock/locker/internal/redisconn"
)

func TestMoment(t *testing.T) {
	now := time.Now()
	for _, at := range []time.Time{now, now.Add(30 * time.Second), now.AddDate(-10, 0, 0)} {
		if got := redisconn.Moment(at.UnixMicro()); got.UnixMicro() != at.UnixMicro() {
			t.Errorf("Moment of %v = %v", at, got)
		}
	}
	for _, micros := range []int64{math.MinInt64, -9e18, -1, 0, 1, 9e14, now.Add(time.Hour).UnixMicro(), 1e18, math.MaxInt64} {
		if got := redisconn.Moment(micros); !got.IsZero() {
			t.Errorf("Moment(%d) = %v, want none", micros, got)
		}
	}
}
