package leader_test

import (
	"context"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker/leader"
	"github.com/fencedlock/locker/membackend"
)

// The longest pauses are pauses, and no overflow.
func TestLongestPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		terms := 0
		start(t, newSite(t, membackend.NewServer()), func(context.Context, leader.Term) error {
			terms++
			return nil
		}, leader.WithRest(math.MaxInt64))
		s := membackend.NewServer()
		s.Fail(errService)
		start(t, newSite(t, s), lead(nil), leader.WithBackoff(math.MaxInt64, math.MaxInt64))
		time.Sleep(24 * time.Hour)
		if terms != 1 {
			t.Errorf("%d terms, want one and a rest without end", terms)
		}
	})
}
