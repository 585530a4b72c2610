package redlockbackend_test

import (
	"errors"
	"testing"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/redlockbackend"
)

func TestRenewals(t *testing.T) {
	for _, c := range []struct {
		what    string
		rounds  [][]string
		lost    []bool
		renewed []bool
	}{
		{"all", [][]string{{renewed, renewed, renewed}}, []bool{false}, []bool{true}},
		{"a majority", [][]string{{renewed, hangUp, renewed}}, []bool{false}, []bool{true}},
		{"a minority: not lost yet", [][]string{{renewed, hangUp, hangUp}, {renewed, renewed, hangUp}}, []bool{false, false}, []bool{false, true}},
		{"two have dropped it", [][]string{{renewed, gone, gone}}, []bool{true}, []bool{false}},
		{"a server that has dropped the lease never counts again", [][]string{{hangUp, gone, renewed}, {hangUp, renewed, renewed}}, []bool{false, false}, []bool{false, false}},
		{"one has dropped it, one has lost its memory", [][]string{{gone, waits, renewed}}, []bool{true}, []bool{false}},
		{"what is left proves less", [][]string{{renewed, hangUp, renewed}, {hangUp, hangUp, gone}}, []bool{false, true}, []bool{true, false}},
	} {
		t.Run(c.what, func(t *testing.T) {
			cl := newCluster(t, 3, time.Second)
			cl.answer("acquire", raised, raised, raised)
			l := cl.lock(t, false)
			grant, err := l.Acquire(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			redlockbackend.AwaitIdle(t.Context(), cl.Driver) // all three have it
			last := grant.Base
			for i, round := range c.rounds {
				cl.answer("renew", round...)
				before := driver.Stamp()
				base, err := cl.renew(t, l)
				redlockbackend.AwaitIdle(t.Context(), cl.Driver)
				if lost := errors.Is(err, locker.ErrLost); lost != c.lost[i] || (err == nil) != c.renewed[i] {
					t.Fatalf("round %d: Renew = %v, want lost: %v, renewed: %v", i, err, c.lost[i], c.renewed[i])
				}
				if err == nil && (base < before || base < last) {
					t.Errorf("round %d: base %d, want one from after %d", i, base, before)
				}
			}
			eventually(t, func() error {
				err := l.Release(t.Context())
				if errors.As(err, new(*driver.PartialReleaseError)) {
					return err
				}
				return nil
			})
		})
	}
}
