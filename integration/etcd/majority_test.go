//go:build unix

package etcd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance"
	"github.com/fencedlock/locker/conformance/process"
	"github.com/fencedlock/locker/conformance/step"
	"github.com/fencedlock/locker/integration/internal/itest"
)

func (s *Service) majorityDown(t conformance.T, _ *conformance.Harness) {
	l, other, name := step.CloseAtEnd(t, s.Open(t)), step.CloseAtEnd(t, s.Open(t)), step.LockName(t)
	lease := step.Acquire(t, l, name, locker.WithTTL(TTL))
	waiter := step.StartAcquire(t, other, name, locker.WithTTL(TTL))
	up := func(ctx context.Context) error {
		return errors.Join(s.docker(ctx, "start", s.Members[1:]...), s.wait(ctx))
	}
	over := false
	t.Cleanup(func() {
		if !over {
			itest.Must(t, up)
		}
	})
	itest.Must(t, func(ctx context.Context) error { return s.docker(ctx, "kill", s.Members[1:]...) })
	began := time.Now()
	err := step.WantFailure(t, 2*TTL, l, step.LockName(t))
	if took := time.Since(began); took > 2*TTL+itest.ShortWait {
		t.Errorf("TryAcquire returned after %v", took)
	}
	if strings.Contains(err.Error(), Password) {
		t.Errorf("the error shows the password: %v", err)
	}
	step.LostWithin(t, time.Until(lease.Deadline())+itest.ShortWait, lease)
	waiter.WantPending(t)
	over = true
	itest.Must(t, up)
	if !waiter.Returned(2 * step.Limit) {
		t.Fatalf("a waiter has not returned after the cluster was back")
	}
	if waiter.Err != nil {
		t.Errorf("Acquire without a majority = %v, want that it waits until there is one", waiter.Err)
	} else {
		step.Release(t, waiter.Lease)
	}
	step.FreeWithin(t, TTL+7*time.Second+itest.ShortWait, other, name)
	step.Eventually(t, step.Limit, func() error {
		if left := s.residue(t); left != "" {
			return fmt.Errorf("left: %s", left)
		}
		return nil
	})
}

func (s *Service) bothDead(t conformance.T, h *conformance.Harness) {
	l, name := step.CloseAtEnd(t, s.Open(t)), step.LockName(t)
	p := itest.StartHolder(s.URL)(t)
	answer, err := p.Do(t.Context(), process.Command{Verb: process.Acquire, Name: name, TTL: TTL})
	if err != nil || answer.Error != "" {
		t.Fatalf("a process has got no lock: %v %s", err, answer.Error)
	}
	waiter := step.StartAcquire(t, l, name, locker.WithTTL(TTL))
	step.Pass(t, TTL/2)
	p.Kill()
	killed := time.Now()
	leader := s.leads(t)
	itest.Must(t, func(ctx context.Context) error { return s.docker(ctx, "kill", leader) })
	t.Cleanup(func() {
		itest.Must(t, func(ctx context.Context) error { return errors.Join(s.docker(ctx, "start", leader), s.wait(ctx)) })
	})
	bound := TTL + l.Guarantees().Expiry.Slack
	next := waiter.Granted(t, bound+itest.ShortWait)
	t.Logf("the lock was free %v after the death of its holder and of the leader; the bound is %v", time.Since(killed), bound)
	if next.Token() <= answer.Token {
		t.Errorf("token %v after %v", next.Token(), answer.Token)
	}
	step.Release(t, next)
}

func (s *Service) unrenewedOverElection(t conformance.T, _ *conformance.Harness) {
	l, other, name := step.CloseAtEnd(t, s.Open(t)), step.CloseAtEnd(t, s.Open(t)), step.LockName(t)
	lease := step.Acquire(t, l, name, locker.WithTTL(steady), locker.WithoutRenewal())
	deadline := lease.Deadline()
	waiter := step.StartAcquire(t, other, name, locker.WithTTL(steady))
	s.failover(t)
	if time.Now().Before(deadline) && lease.Err() != nil {
		t.Errorf("Err = %v, and the deadline is %v away", lease.Err(), time.Until(deadline))
	}
	step.LostWithin(t, time.Until(deadline)+itest.ShortWait, lease)
	if early := time.Until(deadline); early > 0 {
		t.Errorf("it was lost %v before its deadline", early)
	}
	step.Release(t, waiter.Granted(t, steady+itest.ShortWait))
}

// wiped has one Locker that is idle. The login of each refers to a state that the new cluster
// hasn't reached, so members leave its requests without an answer; and nothing but a request tells
// an idle one of the change.
func (s *Service) wiped(t conformance.T, _ *conformance.Harness) {
	l, other, name := step.CloseAtEnd(t, s.Open(t)), step.CloseAtEnd(t, s.Open(t)), step.LockName(t)
	idle := s.idle(t)
	lease := step.Acquire(t, l, name, locker.WithTTL(2*TTL))
	waiter := s.queued(t, other, name, 2*TTL)
	s.wipe(t)
	step.LostWithin(t, time.Until(lease.Deadline())+itest.ShortWait, lease)
	if !waiter.Returned(2 * step.Limit) {
		t.Fatalf("a waiter has not returned after the cluster was replaced with a new one")
	}
	if waiter.Err != nil {
		t.Logf("Acquire while the cluster was lost = %v", waiter.Err)
	} else {
		step.Release(t, waiter.Lease)
	}
	step.FreeWithin(t, step.Limit, l, name)
	step.FreeWithin(t, step.Limit, step.CloseAtEnd(t, s.Open(t)), name)
	step.FreeWithin(t, recovery, idle, name)
}

// propose has the cluster agree on n things.
func (s *Service) propose(ctx context.Context, n int64) error {
	const workers = 64
	errs := make(chan error, workers)
	for range workers {
		go func() {
			var err error
			for i := n / workers; i >= 0 && err == nil; i-- {
				_, err = s.Members[0].admin.Delete(ctx, "nothing")
			}
			errs <- err
		}()
	}
	var err error
	for range workers {
		err = errors.Join(err, <-errs)
	}
	return err
}
