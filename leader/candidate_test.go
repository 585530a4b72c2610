package leader_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/leader"
	"github.com/fencedlock/locker/membackend"
)

func stand(t *testing.T, l locker.Locker, opts ...leader.Option) *leader.Candidate {
	t.Helper()
	c, err := leader.Stand(l, office, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("Close = %v", err)
		}
	})
	synctest.Wait()
	return c
}

func wantLeads(t *testing.T, c *leader.Candidate, want bool) leader.Term {
	t.Helper()
	term, leads := c.Leads()
	if leads != want || leads == (term.Number == 0) {
		t.Errorf("Leads = %+v, %v, want %v", term, leads, want)
	}
	return term
}

func TestCandidate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := membackend.NewServer()
		a, b := stand(t, newSite(t, s)), stand(t, newSite(t, s))
		first := wantLeads(t, a, true)
		if term, err := a.Wait(t.Context()); err != nil || term.Number != first.Number {
			t.Errorf("Wait = %+v, %v", term, err)
		}
		wantLeads(t, b, false)
		if err := b.Resign(t.Context()); err != nil {
			t.Errorf("Resign of a candidate that doesn't lead = %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := b.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Wait = %v", err)
		}

		if err := a.Resign(t.Context()); err != nil {
			t.Errorf("Resign = %v", err)
		}
		wantLeads(t, a, false)
		second, err := b.Wait(t.Context())
		if err != nil || second.Number <= first.Number {
			t.Errorf("Wait = %+v, %v", second, err)
		}
		time.Sleep(2 * time.Second) // a stands again
		second.Resign()
		synctest.Wait()
		wantLeads(t, b, false)
		wantLeads(t, a, true)

		if err := a.Close(); err != nil {
			t.Errorf("Close = %v", err)
		}
		wantLeads(t, a, false)
		if _, err := a.Wait(t.Context()); !errors.Is(err, locker.ErrClosed) {
			t.Errorf("Wait after Close = %v", err)
		}
		if err := a.Resign(t.Context()); err != nil {
			t.Errorf("Resign after Close = %v", err)
		}
	})
}

// Leads is false from the deadline on, and the candidate stands again.
func TestCandidateIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := membackend.NewServer()
		home := newSite(t, s)
		a, b := stand(t, home), stand(t, newSite(t, s))
		home.link.Cut()
		time.Sleep(validity - 1)
		wantLeads(t, a, true)
		wantLeads(t, b, false)
		time.Sleep(time.Nanosecond)
		wantLeads(t, a, false)
		wantLeads(t, b, false)
		time.Sleep(ttl - validity)
		synctest.Wait()
		wantLeads(t, b, true)
		home.link.Heal()
		time.Sleep(time.Minute)
		s.Expire(office)
		synctest.Wait()
		wantLeads(t, a, true)
		wantLeads(t, b, false)
	})
}

// A service that doesn't answer delays Resign up to the limit of Release, and no longer than its caller wants.
func TestResignWithoutAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		home := newSite(t, membackend.NewServer())
		a := stand(t, home)
		home.link.Cut()
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := a.Resign(ctx); !errors.Is(err, context.DeadlineExceeded) || since(began) != time.Second {
			t.Errorf("Resign = %v after %v", err, since(began))
		}
		wantLeads(t, a, false)
		if err := a.Resign(t.Context()); err != nil || since(began) > 5*time.Second {
			t.Errorf("Resign = %v after %v", err, since(began))
		}
		home.link.Heal()
		time.Sleep(10 * time.Second)
		wantLeads(t, a, true)
	})
}

// A locker that is closed ends the candidacy.
func TestCandidateOfAClosedLocker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		home := newSite(t, membackend.NewServer())
		c, err := leader.Stand(home, office)
		if err != nil {
			t.Fatal(err)
		}
		_ = home.Close()
		if _, err := c.Wait(t.Context()); !errors.Is(err, locker.ErrClosed) {
			t.Errorf("Wait = %v", err)
		}
		if err := c.Err(); !errors.Is(err, locker.ErrClosed) {
			t.Errorf("Err = %v", err)
		}
		if err := c.Close(); !errors.Is(err, locker.ErrClosed) {
			t.Errorf("Close = %v", err)
		}
	})
}

// Err is the last failure while the candidate waits, and nil once it was elected.
func TestErr(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := membackend.NewServer()
		s.Fail(errPassword)
		c := stand(t, newSite(t, s))
		want := func(want error) {
			t.Helper()
			synctest.Wait()
			if err := c.Err(); !errors.Is(err, want) {
				t.Errorf("Err = %v, want %v", err, want)
			}
		}
		want(errPassword)
		wantLeads(t, c, false)
		s.Fail(errService)
		time.Sleep(time.Minute)
		want(errService)
		s.Fail(nil)
		time.Sleep(time.Minute)
		wantLeads(t, c, true)
		want(nil)
		if err := c.Resign(t.Context()); err != nil {
			t.Error(err)
		}
		want(nil)
		time.Sleep(time.Minute)
		wantLeads(t, c, true)
		s.Fail(errService)
		time.Sleep(ttl / 2)
		want(nil) // renewals have failed
		time.Sleep(time.Minute)
		wantLeads(t, c, false)
		want(errService)
		if err := c.Close(); err != nil {
			t.Errorf("Close = %v", err)
		}
		want(locker.ErrClosed)
		s.Fail(nil)
	})
}

// What only the backend can judge ends the candidacy, and Err says why.
func TestErrOfARefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := leader.Stand(newSite(t, membackend.NewServer()), office, leader.WithTTL(time.Millisecond))
		if err != nil {
			t.Fatal(err)
		}
		_, waited := c.Wait(t.Context())
		if err := c.Err(); !errors.Is(err, locker.ErrOption) || !errors.Is(waited, locker.ErrOption) {
			t.Errorf("Err = %v, Wait = %v, want ErrOption", err, waited)
		}
		for range 2 {
			if err := c.Close(); !errors.Is(err, locker.ErrOption) {
				t.Errorf("Close = %v, want ErrOption", err)
			}
		}
	})
}

// A refusal is kept also if Close comes while an observer is still being told of it.
func TestErrOfARefusalBeforeClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := &slowBook{gate: make(chan struct{})}
		c, err := leader.Stand(newSite(t, membackend.NewServer()), office, leader.WithTTL(time.Millisecond), leader.WithObserver(slow))
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if err := c.Close(); !errors.Is(err, locker.ErrOption) {
			t.Errorf("Close = %v, want ErrOption", err)
		}
		close(slow.gate)
	})
}
