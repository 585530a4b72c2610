//go:build unix

package integration

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
	"github.com/fencedlock/locker/etcdbackend"
)

// pack is what etcd must show beyond the suite. What takes its time, because a cluster does, is in TestEtcdMembers.
func (s *etcdService) pack() []conformance.Case {
	return slices.Concat([]conformance.Case{
		{ID: "I1", Name: "no-etcd-lease-is-leaked", Run: s.noLeak,
			Why: "etcd leases that nobody uses pile up in the cluster's memory, one for each attempt that failed"},
		{ID: "I2", Name: "revoked-session-is-noticed-at-once", Run: s.revokedByHand,
			Why: "an operator who revokes an etcd lease takes all its locks away: each holder must learn it, and the Locker must go on"},
		{ID: "I3", Name: "compaction-while-waiting", Run: s.compacted,
			Why: "a watch that wants to go on from a revision which is compacted ends; its waiter must not wait for ever"},
		{ID: "I4", Name: "others-traffic-costs-a-waiter-nothing", Run: s.othersTraffic,
			Why: "in a process that waits for one lock, the traffic of all others in the cluster must not arrive"},
		{ID: "I5", Name: "names-are-no-prefixes", Run: s.prefixes,
			Why: "etcd finds keys by prefix: who wants a must not wait for a/b, nor for a name that looks like a key of a"},
		{ID: "I6", Name: "requests-are-as-few-as-documented", Run: s.requestCounts,
			Why: "what a lock costs the cluster decides how many there may be, and it grows unnoticed"},
		{ID: "I7", Name: "renewal-in-a-long-queue-costs-as-much-as-in-a-short-one", Run: s.longQueue,
			Why: "if each waiter's renewal read the queue, some thousand waiters for one name would take all of a member's time"},
	}, s.latePack(), s.accessPack())
}

// openFirst opens a Locker that asks one member until that doesn't answer, and then others.
func (s *etcdService) openFirst(t conformance.T, first *etcdMember, others ...*etcdMember) locker.Locker {
	t.Helper()
	config := s.config
	config.Endpoints = nil
	for _, m := range append([]*etcdMember{first}, others...) {
		config.Endpoints = append(config.Endpoints, local(m.port))
	}
	return newEtcdLocker(t, config, append(s.opts, etcdbackend.WithDefaultTTL(2*time.Minute))...)
}

// hosts is the service's URL with some of the members alone.
func (s *etcdService) hosts(members ...*etcdMember) string {
	hosts := make([]string, len(members))
	for i, m := range members {
		hosts[i] = local(m.port)
	}
	return changed(s.url, func(u *url.URL) { u.Host = strings.Join(hosts, ",") })
}

// with is the service's URL with a parameter.
func (s *etcdService) with(name, value string) string {
	return changed(s.url, func(u *url.URL) {
		query := u.Query()
		query.Set(name, value)
		u.RawQuery = query.Encode()
	})
}

// session is the etcd lease that the holder's key hangs on.
func (s *etcdService) session(t conformance.T, name string) (id clientv3.LeaseID) {
	t.Helper()
	must(t, func(ctx context.Context) error {
		keys, err := s.queue(ctx, name)
		if err != nil || len(keys) == 0 {
			return errors.Join(err, fmt.Errorf("nobody holds %q", name))
		}
		got, err := s.members[0].admin.Get(ctx, keys[0])
		if err == nil && len(got.Kvs) == 1 {
			id = clientv3.LeaseID(got.Kvs[0].Lease)
		}
		return err
	})
	return id
}

// queued starts to wait for a lock that is held, and returns when it has its place.
func (s *etcdService) queued(t conformance.T, l locker.Locker, name string, ttl time.Duration) *waiting {
	t.Helper()
	before := s.waiters(t, name)
	w := wait(t, l, name, locker.WithTTL(ttl))
	eventually(t, soon, func() error {
		if n := s.waiters(t, name); n != before+1 {
			return fmt.Errorf("%d wait in the cluster, want %d", n, before+1)
		}
		return nil
	})
	return w
}

// noLeak counts the etcd leases of Lockers that are open, and when they are closed. One for each TTL in use is what there may be
// of a Locker; with one for each lock, one for each lock that is held.
func (s *etcdService) noLeak(t conformance.T, _ *conformance.Harness) {
	l, other, own := s.open(t), s.open(t), openURL(t, s.with("lease_per_lock", "true"))
	atMost := func(want int, what string) {
		t.Helper()
		eventually(t, soon, func() error {
			if got := len(s.leases(t)); got > want {
				return fmt.Errorf("%s: there are %d etcd leases, want %d at most", what, got, want)
			}
			return nil
		})
	}
	name := lockName(t)
	for i := range 20 {
		ttl := etcdTTL * time.Duration(1+i%2)
		lease := acquire(t, l, name, locker.WithTTL(ttl))
		if _, err := locker.TryAcquire(t.Context(), other, name, locker.WithTTL(ttl)); !errors.Is(err, locker.ErrHeld) {
			t.Fatalf("TryAcquire = %v, want ErrHeld", err)
		}
		if _, err := locker.TryAcquire(t.Context(), own, name); !errors.Is(err, locker.ErrHeld) {
			t.Fatalf("TryAcquire = %v, want ErrHeld", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		for _, waiter := range []locker.Locker{other, own} {
			go func() { _, _ = waiter.Acquire(ctx, name, locker.WithTTL(ttl)) }()
		}
		eventually(t, soon, func() error {
			if n := s.waiters(t, name); n != 2 {
				return fmt.Errorf("%d wait, want 2", n)
			}
			return nil
		})
		cancel()
		release(t, lease)
		free(t, soon, own, lockName(t))
	}
	atMost(4, "with two Lockers that have used two TTLs each")
	release(t, acquire(t, own, name))
	held := acquire(t, own, name)
	atMost(5, "with a lock of its own etcd lease")
	release(t, held)
	atMost(4, "when that is released")
	for _, l := range []locker.Locker{l, other, own} {
		if err := l.Close(); err != nil {
			t.Errorf("Close = %v, want nil", err)
		}
	}
	atMost(0, "when all Lockers are closed")
}

func (s *etcdService) revokedByHand(t conformance.T, _ *conformance.Harness) {
	l, other := keep(t, s.open(t)), keep(t, s.open(t))
	names := []string{lockName(t), lockName(t), lockName(t)}
	var leases []locker.Lease
	var next []*waiting
	for _, name := range names {
		leases = append(leases, acquire(t, l, name, locker.WithTTL(far)))
		next = append(next, wait(t, other, name, locker.WithTTL(far)))
	}
	queued := wait(t, l, names[0], locker.WithTTL(far)) // behind its own Locker's lease, and so without a request
	alone := acquire(t, other, lockName(t), locker.WithTTL(far))
	contested := s.queued(t, l, alone.Name(), far) // on the session that is going to be revoked
	pass(t, time.Second)                           // so that it is held for longer than a moment
	revoked := make(map[clientv3.LeaseID]bool)
	for _, name := range names { // one, unless each lock has its own
		revoked[s.session(t, name)] = true
	}
	for id := range revoked {
		must(t, func(ctx context.Context) error { _, err := s.members[1].admin.Revoke(ctx, id); return err })
	}
	for i, lease := range leases {
		lost(t, soon, lease)
		got := next[i].granted(t, soon)
		if got.Token() <= lease.Token() {
			t.Errorf("token %v after %v", got.Token(), lease.Token())
		}
		held(t, got, l)
		release(t, got)
	}
	release(t, queued.granted(t, soon)) // the Locker has a new session by now
	contested.pending(t)
	release(t, alone)
	release(t, contested.granted(t, far/2))
}

// compacted cuts a waiter off, and meanwhile makes the past that its watch would have to read unreadable.
func (s *etcdService) compacted(t conformance.T, _ *conformance.Harness) {
	holder, admin, name := keep(t, s.open(t)), s.members[0].admin, lockName(t)
	l, network := s.proxied(t)
	keep(t, l)
	compact := func() {
		must(t, func(ctx context.Context) error {
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
	lease := acquire(t, holder, name)
	mine := acquire(t, l, lockName(t), locker.WithTTL(far)) // whose key is watched from when it was put
	pass(t, time.Second)
	waiter := s.queued(t, l, name, far)
	compact()
	waiter.pending(t)
	network.Cut()
	release(t, lease)
	compact()
	network.Heal()
	network.Sever()
	next := waiter.granted(t, 2*soon)
	held(t, next, holder)
	held(t, mine, holder)
	s.remove(t, mine.Name()) // is noticed as before
	lost(t, soon, mine)
	release(t, next)
	free(t, 0, holder, name)
}

func (s *etcdService) prefixes(t conformance.T, _ *conformance.Harness) {
	l, other, name := keep(t, s.open(t)), keep(t, s.open(t)), lockName(t)
	lease := acquire(t, l, name)
	keys := func() (keys []string) {
		must(t, func(ctx context.Context) (err error) { keys, err = s.queue(ctx, name); return err })
		return keys
	}()
	if len(keys) != 1 {
		t.Fatalf("the keys of %q are %q, want one", name, keys)
	}
	owner := strings.TrimPrefix(keys[0], etcdDir(name))
	for _, similar := range []string{name + "/", name + "/b", name + "/" + owner, "/" + name, name + "%2F", name + "%", name[:len(name)-1]} {
		free(t, 0, other, similar)
		another := acquire(t, other, similar)
		held(t, lease, other)
		held(t, another, l)
		release(t, another)
	}
	release(t, lease)
}
