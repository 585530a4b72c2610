//go:build unix

package etcd

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance"
	"github.com/fencedlock/locker/conformance/step"
	"github.com/fencedlock/locker/integration/internal/itest"
)

// TestEtcdMembers is the part of the backend's own cases that each take some TTLs. Random faults by
// the hundred are in TestEtcdCampaign; here is what Lockers must come through without a loss.
func TestEtcdMembers(t *testing.T) {
	itest.NeedServers(t)
	t.Parallel()
	pool := clusters(t)
	t.Run("faults", func(t *testing.T) {
		t.Parallel()
		pool.Take(t).disturbed(t)
	})
	for _, c := range pool.Cases((*Service).memberPack) {
		t.Run(c.String(), func(t *testing.T) {
			t.Parallel()
			h := etcdHarness(clusters)(t)
			h.Setup(t, &h)
			t.Cleanup(func() {
				if t.Failed() {
					t.Logf("why it matters: %s", c.Why)
				}
			})
			c.Run(t, &h)
		})
	}
}

// memberPack tests what happens to leases when one member, two members or the whole cluster fail.
func (s *Service) memberPack() []conformance.Case {
	leader := func(do func(t conformance.T, leader *etcdMember)) func(conformance.T, *conformance.Harness) {
		return func(t conformance.T, _ *conformance.Harness) { s.survives(t, s.leads, do) }
	}
	return []conformance.Case{
		{ID: "I10", Name: "killed-leader-costs-no-lease", Run: leader(s.killed),
			Why: "a cluster exists to survive the crash of one member"},
		{ID: "I11", Name: "isolated-leader-costs-no-lease", Run: leader(s.isolated),
			Why: "a leader that is cut off still acknowledges requests for a while, and these " +
				"acknowledgements are worthless; its clients must continue with the other " +
				"members"},
		{ID: "I12", Name: "frozen-leader-costs-no-lease", Run: leader(s.frozen),
			Why: "a leader that wakes up may revoke etcd leases that its successor has renewed; " +
				"by then the locks must be attached to newer etcd leases"},
		{ID: "I13", Name: "isolated-member-costs-no-lease", Run: func(t conformance.T, _ *conformance.Harness) { s.survives(t, s.follows, s.isolated) },
			Why: "a member that is cut off can't renew or grant; its clients must continue with " +
				"the other members"},
		{ID: "I14", Name: "member-of-others-costs-nothing", Run: s.otherMember,
			Why: "a client that is not connected to the member that is cut off must not notice"},
		{ID: "I15", Name: "watch-on-a-frozen-member-is-left", Run: s.frozenWatch,
			Why: "a frozen member closes no stream: a waiter that relies on its watch at this " +
				"member misses its turn"},
		{ID: "I16", Name: "majority-down-is-an-error", Run: s.majorityDown,
			Why: "without a majority no lock can be granted and no lease can be proved: callers " +
				"must get an error in time, holders must give up, and waiters must go on waiting"},
		{ID: "I17", Name: "dead-holder-and-dead-leader", Run: s.bothDead,
			Why: "a new leader gives each etcd lease its whole TTL again; the bound for a dead " +
				"holder must hold even then"},
		{ID: "I18", Name: "leases-without-renewal-outlive-an-election", Run: s.unrenewedOverElection,
			Why: "when the cluster has a new leader, a lease that isn't renewed must not end " +
				"early, and its holder must not believe in it for longer"},
		{ID: "I19", Name: "data-loss-is-survived", Run: s.wiped,
			Why: "an operator that replaces the cluster with a new one removes all locks: " +
				"holders must know it by their deadline at the latest, and their Lockers must " +
				"continue"},
		{ID: "I35", Name: "set-back-data-is-survived", Run: s.setBack,
			Why: "an operator that restores a cluster removes everything that was written after " +
				"the snapshot: Lockers must continue, also idle ones"},
		{ID: "I36", Name: "exchanged-cluster-is-refused", Run: s.exchanged,
			Why: "another cluster at the same addresses has no locks of the current holders, so " +
				"it must grant nothing unless the user has allowed that"},
		{ID: "I37", Name: "late-change-of-the-leader", Run: s.lateElection,
			Why: "a new leader gives a dead holder's lock its whole TTL again; what the " +
				"documentation says about that must be true"},
		{ID: "I33", Name: "expired-login-is-renewed", Run: s.idleLogin,
			Why: "the cluster forgets the login of a client that was silent for a while; " +
				"leases, waits and acquisitions must not be affected"},
		{ID: "I34", Name: "users-change-while-locks-are-held", Run: s.usersChange,
			Why: "each change of users or roles makes the server refuse the requests that are " +
				"in flight; they must be repeated"},
	}
}

// steady is a TTL that leaves a Locker the time for an election and a few attempts, on a busy
// machine too.
const steady = 16 * etcdElection

func (s *Service) leads(t conformance.T) (m *etcdMember) {
	t.Helper()
	itest.Must(t, func(ctx context.Context) (err error) { m, err = s.leader(ctx); return err })
	return m
}

// follows is a member that doesn't lead.
func (s *Service) follows(t conformance.T) *etcdMember {
	t.Helper()
	return s.others(s.leads(t))[0]
}

// survives holds leases, and waits for locks, while a member is struck, with Lockers that ask this
// member first and last. All leases must survive.
func (s *Service) survives(t conformance.T, choose func(conformance.T) *etcdMember, do func(conformance.T, *etcdMember)) {
	target := choose(t)
	others := s.others(target)
	lockers := []locker.Locker{
		step.CloseAtEnd(t, s.openFirst(t, target, others...)),
		step.CloseAtEnd(t, s.openFirst(t, others[0], others[1], target)),
	}
	var leases []locker.Lease
	var next []*step.Attempt
	for i := range 8 {
		leases = append(leases, step.Acquire(t, lockers[i%2], step.LockName(t), locker.WithTTL(steady), locker.WithHolder(fmt.Sprint("holder ", i))))
		next = append(next, step.StartAcquire(t, lockers[i%2], leases[i].Name(), locker.WithTTL(steady)))
	}
	step.Eventually(t, itest.ShortWait, func() error {
		for _, lease := range leases {
			if keys := s.Waiters(t, lease.Name()); keys > 1 {
				return fmt.Errorf("%d wait, want one at most", keys)
			}
		}
		return nil
	})
	do(t, target)
	itest.Must(t, s.wait)
	step.Pass(t, steady/2) // what was set off may come later
	looker := step.CloseAtEnd(t, s.Open(t))
	for i, lease := range leases {
		if err := lease.Err(); err != nil {
			t.Errorf("lease %d: Err = %v, want nil: the cluster was there all the time", i, err)
			continue
		}
		next[i].WantPending(t)
		if err := lease.Renew(t.Context()); err != nil {
			t.Errorf("Renew = %v, want nil", err)
		}
		itest.WantHolder(t, looker, lease.Name(), fmt.Sprint("holder ", i), "") // keys that were moved keep that
		step.Release(t, lease)
		got := next[i].Granted(t, itest.ShortWait)
		if got.Token() <= lease.Token() {
			t.Errorf("token %v after %v", got.Token(), lease.Token())
		}
		step.Release(t, got)
		step.FreeWithin(t, 0, lockers[i%2], lease.Name())
	}
}

// during checks that a lock can be acquired during a fault, and then ends the fault.
func (s *Service) during(t conformance.T, begin, end func(context.Context) error, d time.Duration) {
	t.Helper()
	over := false
	stop := func() {
		if !over {
			over = true
			itest.Must(t, end)
		}
	}
	t.Cleanup(stop)
	itest.Must(t, begin)
	step.Pass(t, d)
	stop()
}

func (s *Service) killed(t conformance.T, m *etcdMember) {
	s.during(t, func(ctx context.Context) error { return s.docker(ctx, "kill", m) },
		func(ctx context.Context) error { return s.docker(ctx, "start", m) }, steady/2)
}

func (s *Service) isolated(t conformance.T, m *etcdMember) {
	s.during(t, func(ctx context.Context) error { return s.cut(ctx, m) },
		func(ctx context.Context) error { return s.join(ctx, m) }, steady)
}

func (s *Service) frozen(t conformance.T, m *etcdMember) {
	s.during(t, func(ctx context.Context) error { return s.docker(ctx, "pause", m) },
		func(ctx context.Context) error { return s.docker(ctx, "unpause", m) }, steady*3/2)
}

func (s *Service) otherMember(t conformance.T, _ *conformance.Harness) {
	leader := s.leads(t)
	followers := s.others(leader)
	l := step.CloseAtEnd(t, s.openFirst(t, leader, followers[0]))
	other := step.CloseAtEnd(t, s.openFirst(t, followers[0], leader))
	name := step.LockName(t)
	lease := step.Acquire(t, l, name, locker.WithTTL(TTL))
	begin := func(ctx context.Context) error { return s.cut(ctx, followers[1]) }
	end := func(ctx context.Context) error { return s.join(ctx, followers[1]) }
	s.during(t, begin, end, 2*TTL)
	step.WantLive(t, lease, other)
	waiter := step.StartAcquire(t, other, name, locker.WithTTL(TTL))
	itest.Must(t, begin)
	t.Cleanup(func() { itest.Must(t, func(ctx context.Context) error { return errors.Join(end(ctx), s.wait(ctx)) }) })
	step.Release(t, lease)
	step.Release(t, waiter.Granted(t, itest.ShortWait))
	for range 20 {
		step.FreeWithin(t, 0, l, step.LockName(t))
	}
}

// frozenWatch gives the waiter a TTL whose renewals would come too late for the bound that is
// promised... of a third of it.
func (s *Service) frozenWatch(t conformance.T, _ *conformance.Harness) {
	target := s.follows(t)
	others := s.others(target)
	l := step.CloseAtEnd(t, itest.OpenURL(t, s.hosts(others[0], others[1])))
	other := step.CloseAtEnd(t, s.openFirst(t, target, others...))
	name := step.LockName(t)
	lease := step.Acquire(t, l, name, locker.WithTTL(itest.LongTTL))
	waiter := s.queued(t, other, name, TTL)
	step.Pass(t, TTL)
	thaw := func(ctx context.Context) error { return errors.Join(s.docker(ctx, "unpause", target), s.wait(ctx)) }
	t.Cleanup(func() { itest.Must(t, thaw) })
	itest.Must(t, func(ctx context.Context) error { return s.docker(ctx, "pause", target) })
	waiter.WantPending(t)
	step.Release(t, lease)
	next := waiter.Granted(t, TTL+itest.ShortWait)
	if next.Token() <= lease.Token() {
		t.Errorf("token %v after %v", next.Token(), lease.Token())
	}
	step.Release(t, next)
}
