//go:build unix

package etcd

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance"
	"github.com/fencedlock/locker/conformance/step"
	"github.com/fencedlock/locker/etcdbackend"
	"github.com/fencedlock/locker/integration/internal/itest"
)

// pack contains the cases of etcd, in addition to the suite. What takes its time, because a cluster
// does, is in TestEtcdMembers.
func (s *Service) pack() []conformance.Case {
	return slices.Concat([]conformance.Case{
		{ID: "I1", Name: "no-etcd-lease-is-leaked", Run: s.noLeak,
			Why: "unused etcd leases must not pile up in the cluster's memory, one for each " +
				"failed attempt"},
		{ID: "I2", Name: "revoked-session-is-noticed-at-once", Run: s.revokedByHand,
			Why: "an operator that revokes an etcd lease removes all its locks: each holder " +
				"must notice its loss, and the Locker must continue"},
		{ID: "I3", Name: "compaction-while-waiting", Run: s.compacted,
			Why: "a watch ends if it must resume from a revision that was compacted; its waiter " +
				"must not wait without end"},
		{ID: "I4", Name: "others-traffic-costs-a-waiter-nothing", Run: s.othersTraffic,
			Why: "a process that waits for one lock must not receive the traffic of all other " +
				"locks in the cluster"},
		{ID: "I5", Name: "names-are-no-prefixes", Run: s.prefixes,
			Why: "etcd finds keys by prefix: a caller that wants lock a must not wait for lock " +
				"a/b, nor for a lock whose name looks like a key of a"},
		{ID: "I6", Name: "requests-are-as-few-as-documented", Run: s.requestCounts,
			Why: "the cost of one lock limits how many locks a cluster can have, and without a " +
				"test this cost grows unnoticed"},
		{ID: "I7", Name: "renewal-in-a-long-queue-costs-as-much-as-in-a-short-one", Run: s.longQueue,
			Why: "if each waiter's renewal read the queue, a few thousand waiters for one name " +
				"would use all of a member's processor time"},
		{ID: "I8", Name: "keys-are-used-again", Run: s.keysUsedAgain,
			Why: "etcd keeps the name of a deleted key until its history is compacted, and reads " +
				"past it: if each acquisition had a new one, each would cost more than the one before"},
	}, s.latePack(), s.accessPack())
}

// openFirst opens a Locker that asks one member until that doesn't answer, and then others.
func (s *Service) openFirst(t conformance.T, first *etcdMember, others ...*etcdMember) locker.Locker {
	t.Helper()
	config := s.Config
	config.Endpoints = nil
	for _, m := range append([]*etcdMember{first}, others...) {
		config.Endpoints = append(config.Endpoints, itest.LocalAddr(m.Port))
	}
	return NewLocker(t, config, etcdbackend.WithDefaultTTL(2*time.Minute))
}

// hosts is the service's URL with some of the members alone.
func (s *Service) hosts(members ...*etcdMember) string {
	hosts := make([]string, len(members))
	for i, m := range members {
		hosts[i] = itest.LocalAddr(m.Port)
	}
	return itest.Changed(s.URL, func(u *url.URL) { u.Host = strings.Join(hosts, ",") })
}

// session returns the etcd lease that the holder's key is attached to.
func (s *Service) session(t conformance.T, name string) (id clientv3.LeaseID) {
	t.Helper()
	itest.Must(t, func(ctx context.Context) error {
		keys, err := s.queue(ctx, name)
		if err != nil || len(keys) == 0 {
			return errors.Join(err, fmt.Errorf("nobody holds %q", name))
		}
		got, err := s.Members[0].admin.Get(ctx, keys[0])
		if err == nil && len(got.Kvs) == 1 {
			id = clientv3.LeaseID(got.Kvs[0].Lease)
		}
		return err
	})
	return id
}

// queued starts to wait for a lock that is held, and returns when it has its place.
func (s *Service) queued(t conformance.T, l locker.Locker, name string, ttl time.Duration) *step.Attempt {
	t.Helper()
	before := s.Waiters(t, name)
	w := step.StartAcquire(t, l, name, locker.WithTTL(ttl))
	step.Eventually(t, itest.ShortWait, func() error {
		if n := s.Waiters(t, name); n != before+1 {
			return fmt.Errorf("%d wait in the cluster, want %d", n, before+1)
		}
		return nil
	})
	return w
}

// noLeak counts the etcd leases of Lockers that are open, and when they are closed. One for each
// TTL in use is what there may be of a Locker.
func (s *Service) noLeak(t conformance.T, _ *conformance.Harness) {
	l, other, third := s.Open(t), s.Open(t), s.Open(t)
	atMost := func(want int, what string) {
		t.Helper()
		step.Eventually(t, itest.ShortWait, func() error {
			if got := len(s.leases(t)); got > want {
				return fmt.Errorf("%s: there are %d etcd leases, want %d at most", what, got, want)
			}
			return nil
		})
	}
	name := step.LockName(t)
	for i := range 20 {
		ttl := TTL * time.Duration(1+i%2)
		lease := step.Acquire(t, l, name, locker.WithTTL(ttl))
		if _, err := locker.TryAcquire(t.Context(), other, name, locker.WithTTL(ttl)); !errors.Is(err, locker.ErrHeld) {
			t.Fatalf("TryAcquire = %v, want ErrHeld", err)
		}
		if _, err := locker.TryAcquire(t.Context(), third, name, locker.WithTTL(ttl)); !errors.Is(err, locker.ErrHeld) {
			t.Fatalf("TryAcquire = %v, want ErrHeld", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		for _, waiter := range []locker.Locker{other, third} {
			go func() { _, _ = waiter.Acquire(ctx, name, locker.WithTTL(ttl)) }()
		}
		step.Eventually(t, itest.ShortWait, func() error {
			if n := s.Waiters(t, name); n != 2 {
				return fmt.Errorf("%d wait, want 2", n)
			}
			return nil
		})
		cancel()
		step.Release(t, lease)
		step.FreeWithin(t, itest.ShortWait, third, step.LockName(t))
	}
	atMost(7, "with three Lockers that have used two TTLs each, and one of them the default TTL as well")
	for _, l := range []locker.Locker{l, other, third} {
		if err := l.Close(); err != nil {
			t.Errorf("Close = %v, want nil", err)
		}
	}
	atMost(0, "when all Lockers are closed")
}

func (s *Service) revokedByHand(t conformance.T, _ *conformance.Harness) {
	l, other := step.CloseAtEnd(t, s.Open(t)), step.CloseAtEnd(t, s.Open(t))
	names := []string{step.LockName(t), step.LockName(t), step.LockName(t)}
	var leases []locker.Lease
	var next []*step.Attempt
	for _, name := range names {
		leases = append(leases, step.Acquire(t, l, name, locker.WithTTL(itest.LongTTL)))
		next = append(next, step.StartAcquire(t, other, name, locker.WithTTL(itest.LongTTL)))
	}
	queued := step.StartAcquire(t, l, names[0], locker.WithTTL(itest.LongTTL)) // waits for a lease of its own Locker, and so sends no request
	alone := step.Acquire(t, other, step.LockName(t), locker.WithTTL(itest.LongTTL))
	contested := s.queued(t, l, alone.Name(), itest.LongTTL) // on the session that is going to be revoked
	step.Pass(t, time.Second)                                // so that it is held for longer than a moment
	revoked := make(map[clientv3.LeaseID]bool)
	for _, name := range names { // one, unless each lock has its own
		revoked[s.session(t, name)] = true
	}
	for id := range revoked {
		itest.Must(t, func(ctx context.Context) error { _, err := s.Members[1].admin.Revoke(ctx, id); return err })
	}
	for i, lease := range leases {
		step.LostWithin(t, itest.ShortWait, lease)
		got := next[i].Granted(t, itest.ShortWait)
		if got.Token() <= lease.Token() {
			t.Errorf("token %v after %v", got.Token(), lease.Token())
		}
		step.WantLive(t, got, l)
		step.Release(t, got)
	}
	step.Release(t, queued.Granted(t, itest.ShortWait)) // the Locker has a new session by now
	contested.WantPending(t)
	step.Release(t, alone)
	step.Release(t, contested.Granted(t, itest.LongTTL/2))
}

// compacted cuts a waiter off, and meanwhile makes the past that its watch would have to read
// unreadable.
func (s *Service) compacted(t conformance.T, _ *conformance.Harness) {
	holder, admin, name := step.CloseAtEnd(t, s.Open(t)), s.Members[0].admin, step.LockName(t)
	l, network := s.proxied(t)
	step.CloseAtEnd(t, l)
	compact := func() {
		itest.Must(t, func(ctx context.Context) error {
			for range 10 {
				if _, err := admin.Put(ctx, etcdPrefix+"elsewhere", ""); err != nil {
					return err
				}
			}
			deleted, err := admin.Delete(ctx, etcdPrefix+"elsewhere")
			if err != nil {
				return err
			}
			_, err = admin.Compact(ctx, deleted.Header.Revision, clientv3.WithCompactPhysical())
			return err
		})
	}
	lease := step.Acquire(t, holder, name)
	mine := step.Acquire(t, l, step.LockName(t), locker.WithTTL(itest.LongTTL)) // whose key is watched from when it was put
	step.Pass(t, time.Second)
	waiter := s.queued(t, l, name, itest.LongTTL)
	compact()
	waiter.WantPending(t)
	network.Cut()
	step.Release(t, lease)
	compact()
	network.Heal()
	network.Sever()
	next := waiter.Granted(t, 2*itest.ShortWait)
	step.WantLive(t, next, holder)
	step.WantLive(t, mine, holder)
	s.remove(t, mine.Name()) // is noticed as before
	step.LostWithin(t, itest.ShortWait, mine)
	step.Release(t, next)
	step.FreeWithin(t, 0, holder, name)
}

func (s *Service) prefixes(t conformance.T, _ *conformance.Harness) {
	l, other, name := step.CloseAtEnd(t, s.Open(t)), step.CloseAtEnd(t, s.Open(t)), step.LockName(t)
	lease := step.Acquire(t, l, name)
	keys := func() (keys []string) {
		itest.Must(t, func(ctx context.Context) (err error) { keys, err = s.queue(ctx, name); return err })
		return keys
	}()
	if len(keys) != 1 {
		t.Fatalf("the keys of %q are %q, want one", name, keys)
	}
	owner := strings.TrimPrefix(keys[0], etcdDir(name))
	for _, similar := range []string{name + "/", name + "/b", name + "/" + owner, "/" + name, name + "%2F", name + "%", name[:len(name)-1]} {
		step.FreeWithin(t, 0, other, similar)
		another := step.Acquire(t, other, similar)
		step.WantLive(t, lease, other)
		step.WantLive(t, another, l)
		step.Release(t, another)
	}
	step.Release(t, lease)
}
