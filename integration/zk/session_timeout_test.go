//go:build unix

package zk

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance/step"
	"github.com/fencedlock/locker/integration/internal/itest"
	"github.com/fencedlock/locker/zkbackend"
)

// What a Locker finds out about an ensemble, and promises less for.

// TestZkLongSessions is about servers that grant no session as short as those that the Locker asks
// for.
func TestZkLongSessions(t *testing.T) {
	itest.NeedServers(t)
	s := itest.Started(t, "zookeeper", func(ctx context.Context, image string) (*Service, error) {
		s, err := startZkEnsemble(ctx, image, zkTick, "minSessionTimeout=15000", "maxSessionTimeout=60000", "initLimit=20", "syncLimit=8")
		if err == nil {
			s.options = append(s.options, zkbackend.WithTick(zkTick))
		}
		return s, err
	})
	rival := step.CloseAtEnd(t, s.Open(t))
	l, network := s.linked(t, zkbackend.WithDefaultTTL(TTL))
	step.CloseAtEnd(t, l)
	lease := step.Acquire(t, l, step.LockName(t))
	next := step.StartAcquire(t, rival, lease.Name())
	step.Eventually(t, itest.ShortWait, func() error { return s.waiting(t, lease.Name(), 1) })
	network.Cut()
	t.Cleanup(network.Heal) // before the Locker is closed
	began := time.Now()
	step.Release(t, next.Granted(t, step.Limit))
	took, g := time.Since(began), l.Guarantees()
	t.Logf("the rival had the lock %v after the cut; the bound is %v (%s)", took, TTL+g.Expiry.Slack, g.Because)
	if took > TTL+g.Expiry.Slack+itest.ShortWait/2 {
		t.Errorf("the rival had the lock %v after the cut, want %v, and what a busy machine takes", took, TTL+g.Expiry.Slack)
	}
	if took < 10*time.Second || !strings.Contains(g.Because, "minSessionTimeout") {
		t.Errorf("the rival had the lock %v after the cut (%s): this test proves nothing", took, g.Because)
	}
}

// TestZkToleranceOfWhatIsNamed opens Lockers with one, two and all addresses of an ensemble.
func TestZkToleranceOfWhatIsNamed(t *testing.T) {
	itest.NeedServers(t)
	s := itest.Started(t, "zookeeper", startZk)
	for named, want := range map[int]locker.Tolerance{1: locker.ToleranceNone, 2: locker.ToleranceMinority, 3: locker.ToleranceMinority} {
		g := step.CloseAtEnd(t, s.Through(t, s.counter.dial, s.Addrs()[:named])).Guarantees()
		if g.Tolerance != want || (g.Because != "") != (want == locker.ToleranceNone) {
			t.Errorf("%d addresses: fault tolerance %v because %q, want %v", named, g.Tolerance, g.Because, want)
		}
	}
}
