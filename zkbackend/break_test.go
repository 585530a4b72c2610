package zkbackend_test

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/fencedlock/locker"
)

// The answer to the request that marks or deletes a node is lost, and the lock has passed on by the time
// at which the operator looks again. That is no ErrNotHolder, which says that nothing has changed.
func TestBreakWhoseAnswerIsLost(t *testing.T) {
	for _, c := range []struct {
		op     string
		atOnce bool
	}{{"set", false}, {"delete", true}} {
		synctest.Test(t, func(t *testing.T) {
			s := newServer(t)
			lease, operator := acquire(t, open(t, s), "a"), open(t, s)
			breach := locker.Breach{By: "bob", AtOnce: c.atOnce}
			node := "/locker/a/" + s.children("a")[0]
			asked := false
			s.scripts(func(r request) verdict {
				switch {
				case r.op == c.op && !asked:
					asked = true
					return hangUpAfter
				case asked:
					s.remove(node) // by its holder
				}
				return serve
			})
			if effect, err := locker.Break(t.Context(), operator, "a", lease.Token(), breach); effect != (locker.Effect{}) || err != nil || !asked {
				t.Errorf("Break (at once: %v) = %+v, %v, want nil: the lock is free", c.atOnce, effect, err)
			}
			if _, err := locker.Break(t.Context(), operator, "a", lease.Token(), breach); !errors.Is(err, locker.ErrNotHolder) {
				t.Errorf("Break (at once: %v) of a lease that is over = %v, want ErrNotHolder", c.atOnce, err)
			}
		})
	}
}
