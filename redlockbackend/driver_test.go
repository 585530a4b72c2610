package redlockbackend_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/internal/redisconn/redistest"
	"github.com/fencedlock/locker/redlockbackend"
)

const (
	raised  = "*1\r\n$6\r\nraised\r\n"
	gone    = "*1\r\n$4\r\ngone\r\n"
	renewed = "*1\r\n$7\r\nrenewed\r\n"
	waits   = "$10\r\nwaits 5000\r\n"
)

var (
	heldByA = text("held 5000 0 A")
	heldByB = text("held 5000 0 B")
)

// eventually asks until there is no error.
func eventually(t *testing.T, check func() error) {
	t.Helper()
	end := time.Now().Add(30 * time.Second)
	for err := check(); err != nil; err = check() {
		if time.Now().After(end) {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond)
	}
}

// A majority is enough, and nobody waits for the rest, or sends anything twice.
func TestMajorityGrants(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 5, 500*time.Millisecond)
	c.answer("acquire", raised, hangUp, raised, silent, raised)
	l := c.lock(t, false)
	before, wall := driver.Stamp(), time.Now().UnixMicro()
	grant, err := l.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if grant.Base < before || grant.Base > driver.Stamp() || grant.TTL != ttl {
		t.Errorf("Grant = %+v, want a base from before the requests, and the TTL", grant)
	}
	if token := int64(grant.Token); token < wall || token > time.Now().UnixMicro() {
		t.Errorf("the token %d is not the wall clock", token)
	}
	eventually(t, func() error {
		if got := c.called("acquire"); !slices.Equal(got, []int{1, 1, 1, 1, 1}) {
			return errors.New("not all were asked once")
		}
		return nil
	})
	err = l.Release(t.Context())
	for err != nil && errors.As(err, new(*driver.PartialReleaseError)) {
		time.Sleep(time.Millisecond)
		err = l.Release(t.Context())
	}
	if err != nil {
		t.Errorf("Release = %v, want nil", err)
	}
	if got := c.called("release"); slices.Contains(got, 0) {
		t.Errorf("Release asked %v, want all: each may have the lock", got)
	}
}

// A server that was asked and has answered too late has the lease as well, if it has agreed to the
// token.
func TestLateAnswerBacksTheLease(t *testing.T) {
	c := newCluster(t, 3, 5*time.Second)
	c.answer("acquire", raised, raised)
	answer := make(chan string)
	c.servers[2].does("acquire", func() string { return <-answer })
	l := c.lock(t, false)
	if _, err := l.Acquire(t.Context()); err != nil {
		t.Fatal(err)
	}
	answer <- raised
	redlockbackend.AwaitIdle(t.Context(), c.Driver)
	c.answer("renew", renewed, gone, renewed)
	if _, err := c.renew(t, l); err != nil { // two of three have it, one of them the late one
		t.Errorf("Renew = %v, want nil", err)
	}
	eventually(t, func() error { return l.Release(t.Context()) })
}

// What an attempt has got after it has failed is given back, and doesn't count.
func TestLateGrantIsRemoved(t *testing.T) {
	c := newCluster(t, 3, 5*time.Second)
	c.answer("acquire", heldByA, heldByA)
	answer := c.servers[2].gated(t, "acquire", raised)
	l := c.lock(t, true)
	if err := c.acquireFromAll(t, l, heldByA); !errors.Is(err, locker.ErrHeld) {
		t.Fatalf("Acquire = %v, want ErrHeld", err)
	}
	if got := c.called("release"); !slices.Equal(got, []int{0, 0, 0}) {
		t.Errorf("release was sent to %v, and nothing exists there", got)
	}
	answer()
	redlockbackend.AwaitIdle(t.Context(), c.Driver)
	if err := c.released(t, l); err != nil {
		t.Errorf("Release = %v, want nil", err)
	}
	if got := c.called("release"); !slices.Equal(got, []int{0, 0, 1}) {
		t.Errorf("release was sent to %v, want the one that has granted it", got)
	}
}

// What an attempt has got is given back before the attempt is over.
func TestRollback(t *testing.T) {
	c := newCluster(t, 5, time.Second)
	c.answer("acquire", heldByA, raised, heldByA, raised, heldByA)
	l := c.lock(t, true)
	if err := c.acquireFromAll(t, l, heldByA); !errors.Is(err, locker.ErrHeld) {
		t.Fatalf("Acquire = %v, want ErrHeld", err)
	}
	redlockbackend.AwaitIdle(t.Context(), c.Driver) // an answer may be later than the decision
	if got := c.called("release"); !slices.Equal(got, []int{0, 1, 0, 1, 0}) {
		t.Errorf("release was sent %v times, want once to those that have granted it", got)
	}
	if err := c.released(t, l); err != nil {
		t.Errorf("Release = %v, want nil", err)
	}
}

// Several that split the servers try again; a new attempt has a new owner and a larger token.
func TestSplitVoteIsRepeated(t *testing.T) {
	c := newCluster(t, 3, time.Second)
	for i, first := range []string{raised, heldByA, heldByB} {
		c.servers[i].answers("acquire", first, raised)
	}
	l := c.lock(t, true)
	grant, err := l.Acquire(t.Context())
	if err != nil {
		t.Fatalf("Acquire = %v, want a grant", err)
	}
	redlockbackend.AwaitIdle(t.Context(), c.Driver)
	calls := c.servers[0].list()
	if len(calls) != 3 || calls[1] != (call{"release", calls[0].owner, 0, false, ttl}) || calls[2].script != "acquire" ||
		calls[2].owner == calls[0].owner || calls[2].token <= calls[0].token || calls[2].token != grant.Token {
		t.Errorf("the server was asked for %+v, want two attempts with owners and tokens of their own, and a release between them", calls)
	}
	eventually(t, func() error { return l.Release(t.Context()) })
}

// Nobody waits for a minority that was silent the last time. A majority that was is asked as if
// nothing had been: the network was cut, and is back.
func TestSilentMajorityIsHeardAgain(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, 500*time.Millisecond)
	c.answer("acquire", raised, silent, silent)
	c.answer("release", text("released"), silent, silent) // which is news of them as well
	if _, err := c.lock(t, true).Acquire(t.Context()); !errors.Is(err, locker.ErrNoAnswer) || errors.Is(err, locker.ErrHeld) {
		t.Fatalf("Acquire with a silent majority = %v, want ErrNoAnswer", err)
	}
	c.answer("acquire", raised, raised, raised)
	if _, err := c.lock(t, true).Acquire(t.Context()); err != nil {
		t.Errorf("Acquire when all answer again = %v, want a lease", err)
	}
}

// Held is said only when a majority has answered; otherwise the service has failed, and the error
// names each server.
func TestFailedIsNotHeld(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, 500*time.Millisecond)
	c.answer("acquire", heldByA, hangUp, silent)
	for _, noWait := range []bool{true, false} {
		_, err := c.lock(t, noWait).Acquire(t.Context())
		if err == nil || errors.Is(err, locker.ErrHeld) {
			t.Fatalf("Acquire = %v, want an error that is not ErrHeld", err)
		}
		for _, want := range []string{"no majority takes part: 2 of 3 servers don't", c.servers[1].addr, c.servers[2].addr} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("Acquire = %v, want %q in it", err, want)
			}
		}
	}

	// Servers that have lost their memory don't know: a waiter goes on waiting.
	c.answer("acquire", waits, waits, raised)
	if _, err := c.lock(t, true).Acquire(t.Context()); errors.Is(err, locker.ErrHeld) || !strings.Contains(err.Error(), "forgotten") {
		t.Errorf("TryAcquire = %v, want it to say that leases may have been forgotten", err)
	}
	l := c.lock(t, false)
	if _, err := l.Acquire(t.Context()); !errors.Is(err, driver.ErrQueued) && !errors.Is(err, locker.ErrHeld) {
		t.Errorf("Acquire = %v, want Held", err)
	}
	c.answer("acquire", raised, raised, raised)
	if _, err := l.Acquire(t.Context()); err != nil {
		t.Errorf("Acquire = %v, want a grant", err)
	}
	eventually(t, func() error { return l.Release(t.Context()) })
}

// A server with another longest TTL makes the call a mistake of the program only if a majority has one. Otherwise the
// lock can be acquired again when another server is back, so the error is the service's, and names the reason.
func TestWrongLongestTTLOfAMinority(t *testing.T) {
	t.Parallel()
	differs := redistest.Bulk("differs 20000")
	for _, test := range []struct {
		name, outcome string
		answers       []string
	}{
		{"one differs and one is away", locker.OutcomeError, []string{differs, hangUp, raised}},
		{"one differs and one is silent", locker.OutcomeError, []string{differs, raised, silent}},
		{"one differs and two are away", locker.OutcomeError, []string{hangUp, differs, hangUp}},
		{"two differ", locker.OutcomeInvalid, []string{differs, raised, differs}},
		{"two of five differ", locker.OutcomeError, []string{differs, hangUp, differs, raised, raised}},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newCluster(t, len(test.answers), 500*time.Millisecond)
			c.answer("acquire", test.answers...)
			for _, noWait := range []bool{true, false} {
				_, err := c.lock(t, noWait).Acquire(t.Context())
				if err == nil || locker.OutcomeOf(err) != test.outcome || errors.Is(err, locker.ErrOption) != (test.outcome == locker.OutcomeInvalid) {
					t.Fatalf("Acquire = %v, whose outcome is %s, want %s", err, locker.OutcomeOf(err), test.outcome)
				}
			}
		})
	}
}

// The reason is in the text in any case.
func TestWrongLongestTTLIsNamed(t *testing.T) {
	c := newCluster(t, 3, time.Second)
	c.answer("acquire", redistest.Bulk("differs 20000"), hangUp, silent)
	_, err := c.lock(t, true).Acquire(t.Context())
	for _, want := range []string{c.servers[0].addr + ": invalid option: invalid longest TTL: want 20s", c.servers[1].addr} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Acquire = %v, want %q in it", err, want)
		}
	}
}

// A server that doesn't know a script gets its whole text.
func TestUnknownScript(t *testing.T) {
	c := newCluster(t, 3, time.Second)
	for _, s := range c.servers {
		s.answers("acquire", "-NOSCRIPT No matching script.\r\n", raised)
	}
	l := c.lock(t, false)
	if _, err := l.Acquire(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := c.called("whole acquire"); got[0]+got[1]+got[2] < 2 {
		t.Errorf("the whole text was sent %v times", got)
	}
	eventually(t, func() error { return l.Release(t.Context()) })
}
