package redlockbackend_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
)

func TestRaise(t *testing.T) {
	const counter = 1_000_000_000_000_000_000
	short := text("granted 1000000000000000000 1000000000000009999")
	for _, c := range []struct {
		what           string
		acquire, raise []string
		token          locker.Token
		raises         []int
		err            error
	}{
		{"agreed", []string{short, short, heldByA}, []string{raised, raised, ""}, counter + 1, []int{1, 1, 0}, nil},
		{"only those that have granted it are asked", []string{short, hangUp, short}, []string{raised, raised, raised}, counter + 1, []int{1, 0, 1}, nil},
		{"somebody was faster", []string{short, short, heldByA}, []string{short, raised, ""}, 0, nil, locker.ErrHeld},
		{"the lock was lost meanwhile", []string{short, short, heldByA}, []string{gone, raised, ""}, 0, nil, locker.ErrHeld},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			cl := newCluster(t, 3, time.Second)
			cl.answer("acquire", c.acquire...)
			cl.answer("raise", c.raise...)
			if c.acquire[2] == heldByA { // asked in the same moment: the third must not decide
				cl.servers[2].answers("acquire", silent)
			}
			l := cl.lock(t, true)
			grant, err := l.Acquire(t.Context())
			if !errors.Is(err, c.err) || grant.Token != c.token {
				t.Errorf("Acquire = %+v, %v, want token %d, %v", grant, err, c.token, c.err)
			}
			if got := cl.called("raise"); c.raises != nil && !slices.Equal(got, c.raises) {
				t.Errorf("raise was sent %v times, want %v", got, c.raises)
			}
			if c.err == nil {
				cl.answer("renew", renewed, renewed, renewed)
				if _, err := cl.renew(t, l); err != nil {
					t.Errorf("Renew = %v, want nil", err)
				}
			}
		})
	}
}

// One server has agreed to tokens that another can't be raised to. As long as a third can still
// answer, it may agree with one of them; without it the service has failed, and nobody holds the
// lock.
func TestClocksTooFarApart(t *testing.T) {
	ahead := text("granted 1000000009000000000 1000000009060000000")
	c := newCluster(t, 3, 10*time.Second)
	c.answer("acquire", text("granted 1000000000000000000 1000000000060000000"), ahead, hangUp)
	for _, noWait := range []bool{true, false} {
		_, err := c.lock(t, noWait).Acquire(t.Context())
		if err == nil || errors.Is(err, locker.ErrHeld) || errors.Is(err, driver.ErrQueued) || !strings.Contains(err.Error(), "a minute apart") {
			t.Errorf("Acquire = %v, want that clocks are apart", err)
		}
	}
	if got := c.called("raise"); !slices.Equal(got, []int{0, 0, 0}) {
		t.Errorf("raise was sent %v times, which can't succeed", got)
	}
	c.servers[2].answers("acquire", text("granted 1000000000000000000 1000000000060000000")) // whether before or after the others
	c.answer("raise", raised, ahead, raised)
	if _, err := c.lock(t, true).Acquire(t.Context()); err != nil {
		t.Errorf("Acquire = %v, want a grant by the first and the third", err)
	}
}
