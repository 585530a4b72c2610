//go:build unix

package zk

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance"
	"github.com/fencedlock/locker/conformance/step"
	"github.com/fencedlock/locker/integration/internal/itest"
)

// pack contains the cases of ZooKeeper, in addition to the suite. TestZkCampaign shows what
// cut-offs do.
func (s *Service) pack() []conformance.Case {
	return []conformance.Case{
		{ID: "I1", Name: "servers-restart-one-by-one", Run: s.rollingRestart,
			Why: "servers are upgraded one after the other, and no lease may be lost because of " +
				"it: its session moves to another server"},
		{ID: "I2", Name: "ended-session-is-replaced", Run: s.sessionEnded,
			Why: "an operator may end a session; its leases are lost, its waiters queue again, " +
				"and the Locker continues with a new session"},
		{ID: "I3", Name: "expired-session-is-replaced", Run: s.sessionExpired,
			Why: "a client that was disconnected for longer than its session must work again " +
				"when it is connected, and so must its waiters"},
		{ID: "I4", Name: "nodes-of-locks-are-removed", Run: s.reaped,
			Why: "the servers remove a lock's node when it was empty for a while, maybe just " +
				"before it is used; its sequence numbers then begin again, and tokens must not"},
		{ID: "I5", Name: "waiter-whose-node-was-deleted", Run: s.placeDeleted,
			Why: "an operator may delete the wrong node; a waiter must not wait without end " +
				"when its place is gone"},
		{ID: "I6", Name: "quorum-is-lost-and-back", Run: s.quorumLost,
			Why: "without a quorum nothing may be granted, and the error must not say that the " +
				"lock is held; with a quorum everything must continue"},
		{ID: "I7", Name: "nodes-belong-to-their-user", Run: s.permissions,
			Why: "otherwise any client that reaches the servers could free or block any lock"},
		{ID: "I8", Name: "many-leases-cost-few-requests", Run: s.manyLeases,
			Why: "if leases were renewed one by one, every held lock would add to the load of " +
				"the servers"},
		{ID: "I9", Name: "operations-cost-what-is-documented", Run: s.costs,
			Why: "each additional request is another round trip for every waiter"},
		{ID: "I10", Name: "answers-are-lost", Run: s.answersLost,
			Why: "a client whose requests reach the servers, and that gets no answers, must not " +
				"keep its locks for as long as it runs"},
		{ID: "I11", Name: "data-loss-is-survived", Run: s.wiped,
			Why: "an ensemble that lost its data, or another one at the same addresses, has " +
				"none of the sessions: Lockers and waiters must continue there"},
		{ID: "I12", Name: "leader-dies-late", Run: s.leaderDiesLate,
			Why: "a new leader gives a dead holder's session its whole timeout again: the " +
				"documented bound must hold then, too"},
		{ID: "I13", Name: "only-greetings-arrive", Run: s.onlyGreetings,
			Why: "if servers confirm the session and answer nothing else, the client must not " +
				"keep its locks for as long as it runs"},
		{ID: "I14", Name: "no-write-is-answered", Run: s.noWrites,
			Why: "answered reads prove no lease; when a client has lost its leases and can " +
				"remove nothing, others must get its locks"},
		{ID: "I15", Name: "session-that-only-a-former-leader-has-ended", Run: s.endedByFormerLeader,
			Why: "a leader says that a session has ended when it has decided so; if it is cut off " +
				"just then, the session and its nodes live on, and the client must remove them"},
	}
}

const zkLongTTL = 20 * time.Second // so that an election is survived on a busy machine

func (s *Service) rollingRestart(t conformance.T, _ *conformance.Harness) {
	l, other := step.CloseAtEnd(t, s.Open(t)), step.CloseAtEnd(t, s.Open(t))
	var leases []locker.Lease
	for range 20 {
		leases = append(leases, step.Acquire(t, l, step.LockName(t), locker.WithTTL(zkLongTTL), locker.WithHolder("holder")))
	}
	waiter := step.StartAcquire(t, other, leases[0].Name(), locker.WithTTL(zkLongTTL), locker.WithHolder("next"))
	step.Eventually(t, itest.ShortWait, func() error { return s.waiting(t, leases[0].Name(), 1) })
	for _, server := range s.Servers {
		itest.Must(t, func(ctx context.Context) error {
			return errors.Join(s.docker(ctx, "stop", server), s.docker(ctx, "start", server), s.wait(ctx))
		})
		for _, lease := range leases {
			if err := lease.Err(); err != nil {
				t.Fatalf("after server %d: Err = %v, want nil", server.number, err)
			}
		}
	}
	for _, lease := range leases {
		if err := lease.Renew(t.Context()); err != nil {
			t.Errorf("Renew = %v, want nil", err)
		}
	}
	itest.WantHolder(t, other, leases[0].Name(), "holder", "next")
	step.WantLive(t, leases[1], other)
	waiter.WantPending(t)
	step.Release(t, leases[0])
	step.Release(t, waiter.Granted(t, itest.ShortWait))
	for _, lease := range leases[1:] {
		step.Release(t, lease)
	}
}

// waiting returns nil when n acquisitions wait.
func (s *Service) waiting(t conformance.T, name string, want int) error {
	if n := s.Waiters(t, name); n != want {
		return fmt.Errorf("%d wait, want %d", n, want)
	}
	return nil
}

func (s *Service) placeDeleted(t conformance.T, _ *conformance.Harness) {
	l, one, two, name := step.CloseAtEnd(t, s.Open(t)), step.CloseAtEnd(t, s.Open(t)), step.CloseAtEnd(t, s.Open(t)), step.LockName(t)
	lease := step.Acquire(t, l, name)
	first := step.StartAcquire(t, one, name)
	step.Eventually(t, itest.ShortWait, func() error { return s.waiting(t, name, 1) })
	second := step.StartAcquire(t, two, name)
	step.Eventually(t, itest.ShortWait, func() error { return s.waiting(t, name, 2) })
	var before []string
	itest.Must(t, func(ctx context.Context) (err error) {
		if before, err = s.queue(ctx, name); err == nil {
			err = s.ask(ctx, func() error { return s.admin.Delete(before[1], -1) })
		}
		return err
	})
	step.Eventually(t, itest.ShortWait, func() error { // it comes back, after the other one in the queue
		after, err := s.queue(t.Context(), name)
		if err == nil && (len(after) != 3 || !slices.Equal(after[:2], []string{before[0], before[2]})) {
			err = fmt.Errorf("the queue was %q and is %q", before, after)
		}
		return err
	})
	first.WantPending(t)
	second.WantPending(t)
	step.Release(t, lease)
	step.Release(t, second.Granted(t, itest.ShortWait))
	step.Release(t, first.Granted(t, itest.ShortWait))
}

func (s *Service) quorumLost(t conformance.T, _ *conformance.Harness) {
	l, other := step.CloseAtEnd(t, s.Open(t)), step.CloseAtEnd(t, s.Open(t))
	lease, name := step.Acquire(t, l, step.LockName(t), locker.WithTTL(TTL)), step.LockName(t)
	step.FreeWithin(t, itest.ShortWait, l, name)
	itest.Must(t, func(ctx context.Context) error { return s.docker(ctx, "kill", s.Servers[0], s.Servers[1]) })
	opened := make(chan error, 1)
	began := time.Now()
	go func() {
		l, err := locker.Open(t.Context(), s.URL)
		if err == nil {
			_ = l.Close()
		}
		opened <- err
	}()
	step.LostWithin(t, itest.ShortWait, lease)
	_ = step.WantFailure(t, itest.ShortWait/2, l, name)
	_ = step.WantFailure(t, itest.ShortWait/2, other, lease.Name())
	if err := <-opened; err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Open without a quorum = %v, want an error that is not the caller's", err)
	} else if took := time.Since(began); took > 15*time.Second {
		t.Errorf("Open without a quorum took %v", took)
	} else {
		t.Logf("Open = %v", err)
	}
	itest.Must(t, func(ctx context.Context) error {
		return errors.Join(s.docker(ctx, "start", s.Servers[0], s.Servers[1]), s.wait(ctx))
	})
	for _, each := range []locker.Locker{l, other} {
		step.FreeWithin(t, step.Limit, each, name)
		step.FreeWithin(t, step.Limit, each, lease.Name())
	}
}

func (s *Service) manyLeases(t conformance.T, _ *conformance.Harness) {
	const n, each = 1100, 4 * time.Second
	l := step.CloseAtEnd(t, s.Open(t))
	leases := make([]locker.Lease, n)
	var all sync.WaitGroup
	for worker := range 16 {
		all.Go(func() {
			for i := worker; i < n; i += 16 {
				lease, err := l.Acquire(t.Context(), fmt.Sprint("many-", i), locker.WithTTL(each))
				if err != nil {
					t.Errorf("Acquire = %v", err)
					return
				}
				leases[i] = lease
			}
		})
	}
	all.Wait()
	if slices.Contains(leases, nil) {
		t.Fatalf("not all leases were granted")
	}
	var asked int64
	step.Eventually(t, step.Limit, func() error { // once all nodes are watched
		before := s.counter.n.Load()
		step.Pass(t, 2*each)
		if asked = s.counter.n.Load() - before; asked > 100 { // not all were acquired at once, nor are they renewed so
			return fmt.Errorf("%d leases were renewed by %d requests in two TTLs, want 2 or a few more each time", n, asked)
		}
		return nil
	})
	if asked < 2*5 {
		t.Errorf("%d leases were renewed by %d requests in two TTLs: this case proves nothing", n, asked)
	}
	for worker := range 16 {
		all.Go(func() {
			for i := worker; i < n; i += 16 {
				if err := leases[i].Release(t.Context()); err != nil {
					t.Errorf("Release = %v, want nil", err)
				}
			}
		})
	}
	all.Wait()
}
