//go:build unix

package pg

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance"
	"github.com/fencedlock/locker/conformance/process"
	"github.com/fencedlock/locker/conformance/proxy"
	"github.com/fencedlock/locker/conformance/step"
	"github.com/fencedlock/locker/integration/internal/itest"
)

// silentPack tests a holder that falls silent although its connection doesn't end.
func (s *Service) silentPack() []conformance.Case {
	return []conformance.Case{
		{ID: "I30", Name: "cut-off-holder-loses-the-lock-after-its-ttl", Run: s.cutOff,
			Why: "when a cable is cut the server gets no message, and TCP takes hours to " +
				"notice; the server must free the lock in time, and the holder must know before " +
				"the rival has the lock"},
		{ID: "I31", Name: "stopped-holder-loses-the-lock-after-its-ttl", Run: s.stopped,
			Why: "a machine that is stopped must not delay the others, and its holder must see " +
				"the loss at its first check after the machine resumes"},
		{ID: "I32", Name: "holder-cut-off-in-a-message-loses-the-lock", Run: s.cutInMessage,
			Why: "a server that has received a part of a request treats the client as busy, so " +
				"its timeout for idle sessions doesn't apply"},
	}
}

// silence is what holders that fell silent have cost, and how much earlier than their rivals' grant
// they could know.
type silence struct {
	mu             sync.Mutex
	waited, spared []time.Duration
}

// tries runs each function of try count times, in parallel with the other functions.
func (s *silence) tries(t conformance.T, count int, try []func(round int) error) {
	t.Helper()
	for round := range count {
		problems := make([]error, len(try))
		var all sync.WaitGroup
		for i, f := range try {
			all.Go(func() { problems[i] = f(round) })
		}
		all.Wait()
		if err := errors.Join(problems...); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
	}
	t.Logf("%d holders fell silent; rivals had the lock after %s, which is after the holder's deadline by %s",
		count*len(try), pgSpread(s.waited), pgSpread(s.spared))
	if worst := slices.Max(s.waited); worst > itest.ShortTTL+itest.ShortWait {
		t.Errorf("a rival had the lock %v after the holder fell silent, and the TTL is %v", worst, itest.ShortTTL)
	}
}

func pgSpread(all []time.Duration) string {
	if len(all) == 0 {
		return "unknown"
	}
	all = slices.Sorted(slices.Values(all))
	return fmt.Sprintf("%v to %v (median %v)", all[0], all[len(all)-1], all[len(all)/2])
}

// add notes that a rival has just got the lock of a holder that is silent since a moment.
func (s *silence) add(since time.Time, lease locker.Lease) error {
	granted, err := time.Now(), lease.Err()
	if err == nil {
		return fmt.Errorf("the rival has the lock, and the holder's Err is nil with its deadline %v away", time.Until(lease.Deadline()))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waited = append(s.waited, granted.Sub(since))
	s.spared = append(s.spared, granted.Sub(lease.Deadline()))
	return nil
}

// silentHolder has a lease in a Locker whose network goes through link, makes it fall silent, and
// gives the lock to a rival.
func (s *silence) silentHolder(t conformance.T, l, other locker.Locker, link *proxy.Network, fall func()) error {
	ctx, cancel := context.WithTimeout(t.Context(), step.Limit)
	defer cancel()
	defer link.Heal()
	name := step.LockName(t)
	for {
		lease, err := l.Acquire(ctx, name, locker.WithTTL(itest.ShortTTL))
		for err != nil && ctx.Err() == nil { // a connection of the round before may be broken, or all are slow
			lease, err = l.Acquire(ctx, name, locker.WithTTL(itest.ShortTTL))
		}
		if err != nil {
			return fmt.Errorf("Acquire of the holder = %w, want a lease", err)
		}
		rival := step.StartAcquire(t, other, name, locker.WithTTL(itest.LongTTL))
		time.Sleep(rand.N(itest.ShortTTL)) // any moment between two renewals
		early := lease.Err()
		if early == nil {
			fall()
		}
		since := time.Now()
		if err := rivals(rival); err != nil {
			return err
		}
		if early == nil {
			return errors.Join(s.add(since, lease), rival.Lease.Release(ctx))
		}
		t.Logf("lost before it fell silent, which a busy machine may bring about: %v", early) // once more
		if err := errors.Join(rival.Lease.Release(ctx), ctx.Err()); err != nil {
			return err
		}
	}
}

// rivals waits for the rival's lease.
func rivals(rival *step.Attempt) error {
	if !rival.Returned(step.Limit) {
		return fmt.Errorf("the rival has waited for %v, want a lease", step.Limit)
	}
	if rival.Err != nil {
		return fmt.Errorf("Acquire of the rival = %w, want a lease", rival.Err)
	}
	return nil
}

const silentAtOnce = 8

func (s *Service) cutOff(t conformance.T, _ *conformance.Harness) {
	var cost silence
	var try []func(int) error
	for range silentAtOnce {
		l, link := s.proxied(t)
		other := step.CloseAtEnd(t, s.open(t))
		step.CloseAtEnd(t, l)
		try = append(try, func(int) error { return cost.silentHolder(t, l, other, link, link.Cut) })
	}
	cost.tries(t, rounds(t, 1, 25), try)
}

// stopped looks at the lease when the process goes on, which it does when the rival has the lock.
func (s *Service) stopped(t conformance.T, _ *conformance.Harness) {
	var cost silence
	var try []func(int) error
	for range silentAtOnce {
		p, other := itest.StartHolder(s.URL)(t), step.CloseAtEnd(t, s.open(t))
		try = append(try, func(int) error { return cost.stoppedHolder(t, p, other) })
	}
	cost.tries(t, rounds(t, 1, 25), try)
}

func (s *silence) stoppedHolder(t conformance.T, p process.Process, other locker.Locker) error {
	ctx, cancel := context.WithTimeout(t.Context(), step.Limit)
	defer cancel()
	name := step.LockName(t)
	for {
		answer, err := p.Do(ctx, process.Command{Verb: process.Acquire, Name: name, TTL: itest.ShortTTL})
		if err != nil {
			return fmt.Errorf("the holder has no lease: %w", err)
		}
		if answer.Error == "" {
			break
		}
	}
	rival := step.StartAcquire(t, other, name, locker.WithTTL(itest.LongTTL))
	time.Sleep(rand.N(itest.ShortTTL))
	p.Stop()
	since := time.Now()
	problem := rivals(rival)
	waited := time.Since(since)
	p.Continue()
	answer, err := p.Do(ctx, process.Command{Verb: process.Look, Name: name})
	if err := errors.Join(problem, err); err != nil {
		return err
	}
	if !answer.Lost {
		return fmt.Errorf("the rival has the lock, and the holder's Err in its first look after that = %q, want ErrLost", answer.Error)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waited = append(s.waited, waited)
	return rival.Lease.Release(ctx)
}
