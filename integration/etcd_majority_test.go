//go:build unix

package integration

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance"
)

func (s *etcdService) majorityDown(t conformance.T, _ *conformance.Harness) {
	l, other, name := keep(t, s.open(t)), keep(t, s.open(t)), lockName(t)
	lease := acquire(t, l, name, locker.WithTTL(etcdTTL))
	waiter := wait(t, other, name, locker.WithTTL(etcdTTL))
	up := func(ctx context.Context) error {
		return errors.Join(s.docker(ctx, "start", s.members[1:]...), s.wait(ctx))
	}
	over := false
	t.Cleanup(func() {
		if !over {
			must(t, up)
		}
	})
	must(t, func(ctx context.Context) error { return s.docker(ctx, "kill", s.members[1:]...) })
	began := time.Now()
	err := refused(t, 2*etcdTTL, l, lockName(t))
	if took := time.Since(began); took > 2*etcdTTL+time.Second {
		t.Errorf("TryAcquire returned after %v", took)
	}
	if strings.Contains(err.Error(), etcdPassword) {
		t.Errorf("the error shows the password: %v", err)
	}
	lost(t, time.Until(lease.Deadline())+soon, lease)
	if waiter.returned(0) && waiter.err == nil {
		t.Errorf("a lock was granted without a majority")
	}
	over = true
	must(t, up)
	if !waiter.returned(2 * hang) {
		t.Fatalf("a waiter has not returned after the cluster was back")
	}
	if waiter.err != nil {
		t.Logf("Acquire without a majority = %v", waiter.err)
	} else {
		release(t, waiter.lease)
	}
	free(t, etcdTTL+7*time.Second+soon, other, name)
	eventually(t, hang, func() error {
		if left := s.residue(t); left != "" {
			return fmt.Errorf("left: %s", left)
		}
		return nil
	})
}

func (s *etcdService) bothDead(t conformance.T, h *conformance.Harness) {
	l, name := keep(t, s.open(t)), lockName(t)
	p := startHolder(s.url)(t)
	answer, err := p.Do(t.Context(), conformance.Command{Do: conformance.DoAcquire, Name: name, TTL: etcdTTL})
	if err != nil || answer.Error != "" {
		t.Fatalf("a process has got no lock: %v %s", err, answer.Error)
	}
	waiter := wait(t, l, name, locker.WithTTL(etcdTTL))
	pass(t, etcdTTL/2)
	p.Kill()
	killed := time.Now()
	leader := s.leads(t)
	must(t, func(ctx context.Context) error { return s.docker(ctx, "kill", leader) })
	t.Cleanup(func() {
		must(t, func(ctx context.Context) error { return errors.Join(s.docker(ctx, "start", leader), s.wait(ctx)) })
	})
	bound := etcdTTL + l.Guarantees().Expiry.Slack
	next := waiter.granted(t, bound+soon)
	t.Logf("the lock was free %v after the death of its holder and of the leader; the bound is %v", time.Since(killed), bound)
	if next.Token() <= answer.Token {
		t.Errorf("token %v after %v", next.Token(), answer.Token)
	}
	release(t, next)
}

func (s *etcdService) unrenewedOverElection(t conformance.T, _ *conformance.Harness) {
	l, other, name := keep(t, s.open(t)), keep(t, s.open(t)), lockName(t)
	lease := acquire(t, l, name, locker.WithTTL(steady), locker.WithoutRenewal())
	deadline := lease.Deadline()
	waiter := wait(t, other, name, locker.WithTTL(steady))
	s.failover(t)
	if time.Now().Before(deadline) && lease.Err() != nil {
		t.Errorf("Err = %v, and the deadline is %v away", lease.Err(), time.Until(deadline))
	}
	lost(t, time.Until(deadline)+soon, lease)
	if early := time.Until(deadline); early > 0 {
		t.Errorf("it was lost %v before its deadline", early)
	}
	release(t, waiter.granted(t, steady+soon))
}

// wiped has one Locker that is idle. The login of each refers to a state that the new cluster
// hasn't reached, so members leave its requests without an answer; and nothing but a request tells
// an idle one of the change.
func (s *etcdService) wiped(t conformance.T, _ *conformance.Harness) {
	l, other, name := keep(t, s.open(t)), keep(t, s.open(t)), lockName(t)
	idle := s.idle(t)
	lease := acquire(t, l, name, locker.WithTTL(2*etcdTTL))
	waiter := s.queued(t, other, name, 2*etcdTTL)
	s.wipe(t)
	lost(t, time.Until(lease.Deadline())+soon, lease)
	if !waiter.returned(2 * hang) {
		t.Fatalf("a waiter has not returned after the cluster was founded anew")
	}
	if waiter.err != nil {
		t.Logf("Acquire while the cluster was lost = %v", waiter.err)
	} else {
		release(t, waiter.lease)
	}
	free(t, hang, l, name)
	free(t, hang, keep(t, s.open(t)), name)
	free(t, recovery, idle, name)
}

// propose has the cluster agree on n things.
func (s *etcdService) propose(ctx context.Context, n int64) error {
	const workers = 64
	errs := make(chan error, workers)
	for range workers {
		go func() {
			var err error
			for i := n / workers; i >= 0 && err == nil; i-- {
				_, err = s.members[0].admin.Delete(ctx, "nothing")
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
