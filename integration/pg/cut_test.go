//go:build unix

package pg

import (
	"fmt"
	"testing"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance/step"
	"github.com/fencedlock/locker/integration/internal/itest"
	"github.com/fencedlock/locker/integration/netns"
)

// A waiter that is cut off gives its place up when it has answered no keepalive for some seconds,
// long before TCP would by itself, and also on a connection that has had a lease before.
func TestPostgresCutOffWaiter(t *testing.T) {
	itest.NeedServers(t)
	if err := netns.Usable(); err != nil {
		t.Skip(err)
	}
	t.Parallel()
	const (
		ttl      = 3 * time.Second
		interval = ttl / 3                      // of keepalives, three of which may be lost, and of the server's looks at the connection
		most     = 5*interval + 3*time.Second/2 // less than tcp_user_timeout, which is for leases
	)
	s := taken(t)
	at := CutTarget(s)
	network := at.Network(t)
	l, other, name := step.CloseAtEnd(t, at.Through(t, network.Dial)), step.CloseAtEnd(t, s.open(t)), step.LockName(t)
	t.Cleanup(func() { itest.Must(t, network.Heal) })
	waitFor := func() (locker.Lease, *step.Attempt) {
		lease := step.Acquire(t, other, name, locker.WithTTL(itest.LongTTL))
		next := step.StartAcquire(t, l, name, locker.WithTTL(ttl))
		step.Eventually(t, itest.ShortWait, func() error { return s.queued(t, name, 1) })
		return lease, next
	}
	lease, next := waitFor()
	step.Release(t, lease)
	step.Release(t, next.Granted(t, itest.ShortWait))
	_, next = waitFor()
	step.Pass(t, time.Second/2) // what isn't acknowledged yet would count
	if err := network.Cut(t.Context(), netns.Both); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	step.Eventually(t, most, func() error {
		if n := s.waiters(t, name); n > 0 {
			return fmt.Errorf("%v after it was cut off the waiter has its place, want at most %v", time.Since(began), most)
		}
		return nil
	})
	t.Logf("the place was free after %v", time.Since(began))
	next.WantPending(t)
}

// Something between may answer for a holder that is cut off, by a reset: a firewall that has lost
// the connection, say. So the server must send nothing before the TTL is over, keepalives neither.
// They are for waiters, and a lease that was waited for is attached to a waiter's connection.
func TestPostgresAnsweredFor(t *testing.T) {
	itest.NeedServers(t)
	if err := netns.Usable(); err != nil {
		t.Skip(err)
	}
	t.Parallel()
	const ttl = 9 * time.Second // three times the interval of a waiter's keepalives
	s := itest.Started(t, "postgres", Start)
	s.exec(t, "alter system set tcp_keepalives_idle = 2", "select pg_reload_conf()") // for shared connections
	at := CutTarget(s)
	for _, waits := range []bool{true, false} {
		t.Run(fmt.Sprintf("after a wait: %v", waits), func(t *testing.T) {
			t.Parallel()
			network := at.Network(t)
			l, other, name := step.CloseAtEnd(t, at.Through(t, network.Dial)), step.CloseAtEnd(t, s.open(t)), step.LockName(t)
			t.Cleanup(func() { itest.Must(t, network.Heal) })
			var lease locker.Lease
			if waits {
				before := step.Acquire(t, other, name, locker.WithTTL(ttl))
				next := step.StartAcquire(t, l, name, locker.WithTTL(ttl))
				step.Eventually(t, itest.ShortWait, func() error { return s.queued(t, name, 1) })
				step.Release(t, before)
				lease = next.Granted(t, itest.ShortWait)
			} else {
				lease = step.Acquire(t, l, name, locker.WithTTL(ttl))
			}
			step.Pass(t, time.Second/2) // an answer to an acknowledgement that is on its way would end the session too
			if err := network.Cut(t.Context(), netns.Answered); err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			rival, err := other.Acquire(t.Context(), name, locker.WithTTL(ttl))
			believed := lease.Err() == nil
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("the rival had the lock %v after the cut", time.Since(began))
			if believed {
				t.Errorf("two holders, %v after the cut: Err is nil until %v from now", time.Since(began), time.Until(lease.Deadline()))
			}
			step.Release(t, rival)
		})
	}
}

// A lease that was waited for is attached to its waiter's connection at first, on which keepalives
// were to find out whether the waiter was still there: within 40 s. With a longer TTL the holder
// may believe in its lease for longer.
func TestPostgresCutOffAfterAWait(t *testing.T) {
	itest.NeedServers(t)
	if err := netns.Usable(); err != nil {
		t.Skip(err)
	}
	t.Parallel()
	const ttl = 46 * time.Second
	s := taken(t)
	at := CutTarget(s)
	network := at.Network(t)
	l, other, name := step.CloseAtEnd(t, at.Through(t, network.Dial)), step.CloseAtEnd(t, s.open(t)), step.LockName(t)
	t.Cleanup(func() { itest.Must(t, network.Heal) })
	before := step.Acquire(t, other, name, locker.WithTTL(ttl))
	next := step.StartAcquire(t, l, name, locker.WithTTL(ttl))
	step.Eventually(t, itest.ShortWait, func() error { return s.queued(t, name, 1) })
	step.Release(t, before)
	lease := next.Granted(t, itest.ShortWait)
	step.Pass(t, time.Second/2) // what isn't acknowledged yet would postpone the end of the connection
	if err := network.Cut(t.Context(), netns.Both); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	rival, err := other.Acquire(t.Context(), name, locker.WithTTL(ttl))
	believed := lease.Err() == nil
	after := time.Since(began)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("the rival had the lock %v after the cut, %v after the holder's deadline", after, -time.Until(lease.Deadline()))
	if believed {
		t.Errorf("two holders, %v after the cut: Err is nil until %v from now", after, time.Until(lease.Deadline()))
	}
	if bound := ttl + other.Guarantees().Expiry.Slack + itest.ShortWait; after > bound {
		t.Errorf("the rival had the lock %v after the cut, want %v at most", after, bound)
	}
	step.Release(t, rival)
}
