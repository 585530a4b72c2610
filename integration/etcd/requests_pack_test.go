//go:build unix

package etcd

import (
	"context"
	"errors"
	"strings"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance"
	"github.com/fencedlock/locker/conformance/step"
	"github.com/fencedlock/locker/integration/internal/itest"
)

// cost is what something costs a cluster: requests of Lockers, keepalives among them, and what goes
// through the log of all members. Messages about watches are not counted: when a lock is watched is
// a matter of time.
type cost struct{ requests, writes int64 }

func (s *Service) cost(t conformance.T) (c cost) {
	t.Helper()
	own := s.sent.n.Load()
	itest.Must(t, func(ctx context.Context) error {
		for _, m := range s.Members {
			counters, err := m.metrics(ctx)
			if err != nil {
				return err
			}
			c.writes = max(c.writes, int64(counters["etcd_server_proposals_committed_total"])) // the leader knows first
			for name, n := range counters {
				if strings.HasPrefix(name, "grpc_server_msg_received_total{") && !strings.Contains(name, `"etcdserverpb.Watch"`) {
					c.requests += int64(n)
				}
			}
		}
		return nil
	})
	c.requests -= own
	return c
}

// costs fails unless a step costs what is wanted, in one of some tries: others may come in between,
// such as a renewal, and a busy cluster is asked again. prepare is not counted.
func (s *Service) costs(t conformance.T, what string, want cost, prepare func() (step func())) {
	t.Helper()
	var seen []cost
	for range 10 {
		step := prepare()
		before := s.cost(t)
		step()
		after := s.cost(t)
		c := cost{after.requests - before.requests, after.writes - before.writes}
		if c == want {
			return
		}
		seen = append(seen, c)
	}
	t.Errorf("%s: %+v, want %+v", what, seen, want)
}

// requestCounts is the table of docs/etcd.md.
func (s *Service) requestCounts(t conformance.T, _ *conformance.Harness) {
	l, other := step.CloseAtEnd(t, s.Open(t)), step.CloseAtEnd(t, s.Open(t))
	var lease locker.Lease
	take := func(l locker.Locker, name string) func() {
		return func() { lease = step.Acquire(t, l, name, locker.WithTTL(itest.LongTTL)) }
	}
	giveBack := func() { step.Release(t, lease) }
	step.FreeWithin(t, 0, l, step.LockName(t)) // so that there is a session of the usual TTL
	for _, c := range []struct {
		what    string
		prepare func() func()
		want    cost
	}{
		{"open, with a login, and close", func() func() { return func() { _ = s.Open(t).Close() } }, cost{8, 4}},
		{"the first lock with a TTL", func() func() {
			l := step.CloseAtEnd(t, s.Open(t))
			step.Pass(t, itest.ShortWait/10) // until the end of what was granted to see whether it fits
			return take(l, step.LockName(t))
		}, cost{2, 2}},
		{"acquire a free lock", func() func() { return take(l, step.LockName(t)) }, cost{1, 1}},
		{"release", func() func() {
			take(l, step.LockName(t))()
			return giveBack
		}, cost{1, 1}},
		{"TryAcquire of one that is held", func() func() {
			name := step.LockName(t)
			take(l, name)()
			return func() {
				if _, err := locker.TryAcquire(t.Context(), other, name, locker.WithTTL(itest.LongTTL)); !errors.Is(err, locker.ErrHeld) {
					t.Errorf("TryAcquire = %v, want ErrHeld", err)
				}
			}
		}, cost{1, 1}},
		{"wait for the first time", func() func() {
			name := step.LockName(t)
			take(l, name)()
			return func() {
				s.queued(t, other, name, itest.LongTTL)
				step.Pass(t, itest.ShortWait/5) // until it has checked which holders were there before its watch
			}
		}, cost{2, 1}},
		{"hand over", func() func() {
			name := step.LockName(t)
			take(l, name)()
			next := s.queued(t, other, name, itest.LongTTL)
			step.Pass(t, itest.ShortWait/20) // until its watch exists
			return func() {
				giveBack()
				next.Granted(t, itest.ShortWait)
			}
		}, cost{1, 1}},
		{"renew", func() func() {
			take(l, step.LockName(t))()
			return func() {
				if err := lease.Renew(t.Context()); err != nil {
					t.Errorf("Renew = %v, want nil", err)
				}
			}
		}, cost{2, 0}},
	} {
		s.costs(t, c.what, c.want, c.prepare)
	}
}
