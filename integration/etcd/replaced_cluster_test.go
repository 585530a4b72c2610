//go:build unix

package etcd

import (
	"context"
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance"
	"github.com/fencedlock/locker/conformance/process"
	"github.com/fencedlock/locker/conformance/step"
	"github.com/fencedlock/locker/integration/images"
	"github.com/fencedlock/locker/integration/internal/itest"
)

// recovery is the time in which a Locker must recover after its cluster was replaced or set back:
// one attempt whose requests nobody answers, and one more.
const recovery = 15 * time.Second

// idle opens a Locker that has been at work and isn't any more: nothing is held, waited for or
// watched. The cluster has gone on by so much that a login of now refers to a state which a new
// cluster doesn't reach soon.
func (s *Service) idle(t conformance.T) locker.Locker {
	t.Helper()
	l := step.CloseAtEnd(t, s.Open(t))
	for range 20 {
		step.FreeWithin(t, 0, l, step.LockName(t))
	}
	itest.Must(t, func(ctx context.Context) error { return s.propose(ctx, 1000) })
	step.Pass(t, etcdTokenTTL+time.Second) // it must log in again now, which refers to the present
	step.FreeWithin(t, 0, l, step.LockName(t))
	return l
}

// setBack restores all members from an older copy of their disks.
func (s *Service) setBack(t conformance.T, _ *conformance.Harness) {
	l, other, name := step.CloseAtEnd(t, s.Open(t)), step.CloseAtEnd(t, s.Open(t)), step.LockName(t)
	s.down(t)
	copies := t.TempDir()
	for _, m := range s.Members {
		dir := filepath.Join(copies, m.ID)
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatalf("%v", err)
		}
		itest.Must(t, func(ctx context.Context) error { _, err := images.Docker(ctx, "cp", m.ID+":/member", dir); return err })
	}
	s.up(t)
	idle := s.idle(t)
	lease := step.Acquire(t, l, name, locker.WithTTL(2*TTL))
	waiter := s.queued(t, other, name, 2*TTL)
	s.down(t)
	for _, m := range s.Members {
		itest.Must(t, func(ctx context.Context) error {
			_, err := images.Docker(ctx, "cp", filepath.Join(copies, m.ID, "member"), m.ID+":/")
			return err
		})
	}
	itest.Must(t, func(ctx context.Context) error { return errors.Join(s.docker(ctx, "start"), s.logIn(ctx)) })
	step.LostWithin(t, time.Until(lease.Deadline())+itest.ShortWait, lease)
	if !waiter.Returned(2 * step.Limit) {
		t.Fatalf("a waiter has not returned after the cluster was set back")
	}
	if waiter.Err != nil {
		t.Logf("Acquire while the cluster was set back = %v", waiter.Err)
	} else {
		step.Release(t, waiter.Lease)
	}
	step.FreeWithin(t, recovery, l, name)
	step.FreeWithin(t, recovery, idle, name)
	step.FreeWithin(t, recovery, other, name)
}

// exchanged replaces the cluster with one that has another id. Lockers that were open before grant
// nothing there until they are opened again.
func (s *Service) exchanged(t conformance.T, _ *conformance.Harness) {
	l, other, name := step.CloseAtEnd(t, s.Open(t)), step.CloseAtEnd(t, s.Open(t)), step.LockName(t)
	idle := s.idle(t)
	lease := step.Acquire(t, l, name, locker.WithTTL(2*TTL))
	waiter := s.queued(t, other, name, 2*TTL)
	s.token = rand.Text()
	s.wipe(t)
	fresh := step.CloseAtEnd(t, s.Open(t))
	step.FreeWithin(t, step.Limit, fresh, step.LockName(t))
	step.LostWithin(t, time.Until(lease.Deadline())+itest.ShortWait, lease)
	if !waiter.Returned(step.Limit) {
		t.Fatalf("a waiter has not returned after the cluster was exchanged")
	}
	if waiter.Err == nil {
		t.Errorf("a waiter was granted a lock of another cluster")
	} else {
		t.Logf("Acquire = %v", waiter.Err)
	}
	for _, old := range []locker.Locker{l, other, idle} {
		s.refusesTheOther(t, old)
		s.refusesTheOther(t, old)
	}
	step.FreeWithin(t, 0, fresh, name)
	if left := s.residue(t); left != "" {
		t.Errorf("in the other cluster is left: %s", left)
	}
}

// refusesTheOther fails unless a Locker gets no lock, and says that it must be opened again.
func (s *Service) refusesTheOther(t conformance.T, l locker.Locker) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), recovery)
	defer cancel()
	lease, err := locker.TryAcquire(ctx, l, step.LockName(t))
	if err == nil {
		_ = lease.Release(ctx)
		t.Fatalf("TryAcquire = a lease of another cluster")
	}
	if errors.Is(err, locker.ErrHeld) || !strings.Contains(err.Error(), "a member of another cluster: 127.0.0.1:") ||
		!strings.Contains(err.Error(), "open the locker again") {
		t.Errorf("TryAcquire = %v, want it to say that this is another cluster", err)
	}
}

// lateElection has the leader killed just before the lock of a dead holder is free. What the
// documentation says is true: TTL and slack count from the loss of the leader then, and not from
// the death of the holder.
func (s *Service) lateElection(t conformance.T, _ *conformance.Harness) {
	const ttl, before = 15 * time.Second, 4 * time.Second // a busy machine may be slow to kill
	l, name := step.CloseAtEnd(t, s.Open(t)), step.LockName(t)
	p := itest.StartHolder(s.URL)(t)
	answer, err := p.Do(t.Context(), process.Command{Verb: process.Acquire, Name: name, TTL: ttl})
	if err != nil || answer.Error != "" {
		t.Fatalf("a process has got no lock: %v %s", err, answer.Error)
	}
	leader := s.leads(t)
	p.Kill()
	dead := time.Now()
	waiter := step.StartAcquire(t, l, name, locker.WithTTL(ttl))
	step.Pass(t, ttl-before)
	itest.Must(t, func(ctx context.Context) error { return s.docker(ctx, "kill", leader) })
	killed := time.Now()
	t.Cleanup(func() {
		itest.Must(t, func(ctx context.Context) error { return errors.Join(s.docker(ctx, "start", leader), s.wait(ctx)) })
	})
	waiter.WantPending(t)
	bound := ttl + l.Guarantees().Expiry.Slack
	next := waiter.Granted(t, bound+itest.ShortWait)
	t.Logf("the lock was free %v after the death of its holder, and %v after that of the leader; TTL and slack are %v", time.Since(dead), time.Since(killed), bound)
	if since := time.Since(killed); since > bound {
		t.Errorf("the lock was free %v after the death of the leader, want %v", since, bound)
	}
	if since := time.Since(dead); since < 2*ttl-before {
		t.Errorf("the lock was free %v after the death of its holder: the new leader hasn't given it the whole TTL again, so the docs say too much", since)
	}
	if next.Token() <= answer.Token {
		t.Errorf("token %v after %v", next.Token(), answer.Token)
	}
	step.Release(t, next)
}
