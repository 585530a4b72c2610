package redlockbackend_test

import (
	"errors"
	"fmt"
	"sync/atomic"
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

// A server that has forgotten a lease lets nobody in for the longest TTL, so what it acknowledged
// before stays true. The lease isn't lost though this answer comes first, and the others prove less
// until they answer. A server that doesn't have the lease, and hasn't forgotten anything, lets others
// in: what it acknowledged isn't true any more.
func TestServerThatForgetsInARound(t *testing.T) {
	for _, c := range []struct {
		first string
		lost  bool
	}{
		{waits, false},
		{gone, true},
	} {
		cl := newCluster(t, 5, 10*time.Second)
		cl.answer("acquire", raised, raised, raised, raised, raised)
		l := cl.lock(t, false)
		if _, err := l.Acquire(t.Context()); err != nil {
			t.Fatal(err)
		}
		redlockbackend.AwaitIdle(t.Context(), cl.Driver) // all five have it
		cl.answer("renew", renewed, renewed, renewed, hangUp, hangUp)
		if _, err := cl.renew(t, l); err != nil {
			t.Fatalf("Renew by three of five = %v, want nil", err)
		}
		redlockbackend.AwaitIdle(t.Context(), cl.Driver)

		cl.servers[2].answers("renew", c.first)
		var answers []func()
		for _, i := range []int{0, 1, 3, 4} {
			answers = append(answers, cl.servers[i].gated(t, "renew", renewed))
		}
		before, done := driver.Stamp(), make(chan struct{})
		go func() {
			defer close(done)
			base, err := cl.renew(t, l)
			if lost := errors.Is(err, locker.ErrLost); lost != c.lost || !lost && (err != nil || base < before) {
				t.Errorf("Renew, to which a server first answers %q = %d, %v, want lost: %v", c.first, base, err, c.lost)
			}
		}()
		eventually(t, func() error {
			if n := redlockbackend.Busy(cl.Driver); n != 5 { // the requests to the other four, and what waits for these
				return fmt.Errorf("%d goroutines wait for servers, want 5", n)
			}
			return nil
		})
		for _, answer := range answers {
			answer()
		}
		<-done
		redlockbackend.AwaitIdle(t.Context(), cl.Driver)
		if err := cl.released(t, l); err != nil {
			t.Errorf("Release = %v, want nil", err)
		}
	}
}

// What a server acknowledged before it forgot the lease doesn't make it one of the majority.
func TestForgetfulServersAreNoMajority(t *testing.T) {
	cl := newCluster(t, 3, time.Second)
	cl.answer("acquire", raised, raised, raised)
	l := cl.lock(t, false)
	if _, err := l.Acquire(t.Context()); err != nil {
		t.Fatal(err)
	}
	redlockbackend.AwaitIdle(t.Context(), cl.Driver)
	cl.answer("renew", renewed, waits, waits)
	if _, err := cl.renew(t, l); !errors.Is(err, locker.ErrLost) {
		t.Errorf("Renew when two of three have forgotten the lease = %v, want ErrLost", err)
	}
	if err := cl.released(t, l); err != nil {
		t.Errorf("Release = %v, want nil", err)
	}
}

// Several parts of many leases are on their way to a server at a time: one round trip after the other would
// limit how many leases one Locker can have.
func TestManyLeasesAreRenewedInParallel(t *testing.T) {
	const many, atATime = 1000, 4 // 8 parts
	c := newCluster(t, 3, time.Minute)
	locks := make([]driver.Lock, many)
	for i := range locks {
		locks[i] = redlockbackend.Hold(c.Driver, fmt.Sprint(i))
	}
	var answers []func()
	for _, s := range c.servers {
		answers = append(answers, s.gated(t, "renew", renewed))
	}
	done := make(chan struct{})
	var failed atomic.Int64
	go func() {
		defer close(done)
		c.Renew(t.Context(), locks, func(_ int, _ driver.Instant, err error) {
			if err != nil {
				failed.Add(1)
			}
		})
	}()
	for i := range c.servers {
		c.asked(t, i, "renew", atATime)
	}
	time.Sleep(50 * time.Millisecond)
	for i, n := range c.called("renew") {
		if n > atATime {
			t.Errorf("server %d was sent %d parts at a time, want %d", i, n, atATime)
		}
	}
	for _, answer := range answers {
		answer()
	}
	<-done
	redlockbackend.AwaitIdle(t.Context(), c.Driver)
	if n := failed.Load(); n != 0 {
		t.Errorf("%d of %d renewals have failed", n, many)
	}
	for i, s := range c.servers {
		if n := s.asked("renew"); n != many {
			t.Errorf("server %d was asked about %d leases, want %d", i, n, many)
		}
	}
}
