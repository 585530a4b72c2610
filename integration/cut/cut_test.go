//go:build unix

package cut

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance"
	"github.com/fencedlock/locker/conformance/step"
	"github.com/fencedlock/locker/integration/internal/itest"
	"github.com/fencedlock/locker/integration/netns"
)

// TestCut drops the packets of holders, below TCP, so that nothing acknowledges packets in their
// place: in both directions and in each alone, permanently and for less than the TTL, for leases
// that were granted at once and for leases that were waited for. Whichever direction is cut, the
// holder must know that it has lost the lock before its rival gets the lock, and the rival must get
// it in time.
//
// Each cut is tested twice: with the usual timers of the system, and with limits for keepalives and
// retransmissions, in both kernels, that are shorter than the TTL. If a service closes a silent
// connection because of these limits, it must not free the lock because of that. With LOCKER_SOAK
// there are more runs with the usual timers, in which the TTL is longer than these.
func TestCut(t *testing.T) {
	itest.NeedServers(t)
	if err := netns.Usable(); err != nil {
		t.Skip(err)
	}
	for _, s := range cutServices {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			at := s.start(t)
			t.Run("usual timers", func(t *testing.T) { cutAll(t, at, 3*time.Second) })
			if os.Getenv("LOCKER_SOAK") != "" {
				t.Run("usual timers, 45 s", func(t *testing.T) { cutAll(t, at, 45*time.Second) })
				t.Run("usual timers, 3 min", func(t *testing.T) { cutAll(t, at, longestTTL) })
			}
			for _, pid := range at.Processes(t) {
				if err := netns.Set(pid, shortTimers); err != nil {
					t.Fatal(err)
				}
			}
			t.Run("short timers", func(t *testing.T) { cutAll(t, at, 10*time.Second) })
		})
	}
}

// longestTTL is the longest TTL here.
const longestTTL = 3 * time.Minute

// shortTimers are limits after which a kernel closes a connection: after 3 s without an answer to a
// keepalive, and after about 3 s without an acknowledgement of data that it has sent.
var shortTimers = map[string]string{
	"net/ipv4/tcp_keepalive_time":   "1",
	"net/ipv4/tcp_keepalive_intvl":  "1",
	"net/ipv4/tcp_keepalive_probes": "2",
	"net/ipv4/tcp_retries2":         "3",
}

// cut is one way to cut a holder off.
type cut struct {
	ttl       time.Duration
	direction netns.Direction
	permanent bool // otherwise the cut is shorter than the TTL
	waitedFor bool // the holder had to wait, and its rival already waits when the cut begins

	network       *netns.Network
	holder, rival locker.Locker
	lease         locker.Lease
}

func (c *cut) String() string {
	length, lease := "for less than the TTL", "the lock was free"
	if c.permanent {
		length = "permanently"
	}
	if c.waitedFor {
		lease = "the lock was waited for"
	}
	return fmt.Sprintf("TTL %v, %v, %s, %s", c.ttl, c.direction, length, lease)
}

// cutAll cuts holders off in all ways, at the same time.
func cutAll(t *testing.T, at *itest.CutTarget, ttl time.Duration) {
	var cuts []*cut
	for _, d := range []netns.Direction{netns.Both, netns.Requests, netns.Replies} {
		for _, permanent := range []bool{true, false} {
			for _, waitedFor := range []bool{true, false} {
				c := &cut{ttl: ttl, direction: d, permanent: permanent, waitedFor: waitedFor}
				c.acquire(t, at)
				cuts = append(cuts, c)
			}
		}
	}
	var (
		mu sync.Mutex
		// The time between the loss and the rival's grant, of permanent cuts.
		shortest = make(map[netns.Direction]time.Duration)
		runs     sync.WaitGroup
	)
	for _, c := range cuts {
		runs.Go(func() {
			got, err := c.run(t.Context())
			if err != nil {
				t.Errorf("%v: %v", c, err)
				return
			}
			t.Logf("%v: %v", c, got)
			if c.permanent {
				mu.Lock()
				defer mu.Unlock()
				shortest[c.direction] = min(cmp.Or(shortest[c.direction], got.margin()), got.margin())
			}
		})
	}
	runs.Wait()
	for d, margin := range shortest {
		t.Logf("shortest time between loss and grant, TTL %v, %v: %v", ttl, d, margin.Round(time.Millisecond))
	}
}

// acquire acquires the lock for the holder that will be cut off.
func (c *cut) acquire(t conformance.T, at *itest.CutTarget) {
	c.network = at.Network(t)
	c.holder, c.rival = step.CloseAtEnd(t, at.Through(t, c.network.Dial)), step.CloseAtEnd(t, at.Open(t))
	t.Cleanup(func() { // runs before the Lockers are closed
		if err := c.network.Heal(context.Background()); err != nil {
			t.Errorf("%v", err)
		}
	})
	name := step.LockName(t)
	if !c.waitedFor {
		c.lease = step.Acquire(t, c.holder, name, locker.WithTTL(c.ttl))
		return
	}
	before := step.Acquire(t, c.rival, name, locker.WithTTL(c.ttl))
	next := step.StartAcquire(t, c.holder, name, locker.WithTTL(c.ttl))
	step.Eventually(t, itest.ShortWait, func() error {
		if at.Waiters(t, name) == 0 {
			return errors.New("no waiter is queued")
		}
		return nil
	})
	step.Release(t, before)
	c.lease = next.Granted(t, itest.ShortWait)
}

// outcome is what happened after a cut, in time since the cut.
type outcome struct {
	lost    time.Duration // when the holder knew; 0 if the lease survived and was released later
	granted time.Duration // when the rival had it
}

func (p outcome) margin() time.Duration { return p.granted - p.lost }

func (p outcome) String() string {
	if p.lost == 0 {
		return "the lease survived"
	}
	return fmt.Sprintf("lost after %v, granted %v later", p.lost.Round(time.Millisecond), p.margin().Round(time.Millisecond))
}

// run cuts the holder off, at a random time between two renewals.
func (c *cut) run(ctx context.Context) (got outcome, err error) {
	bound := c.ttl + c.rival.Guarantees().Expiry.Slack + itest.ShortWait
	if c.direction == netns.Replies {
		bound += c.ttl // the holder still renews the lease until it gives up for lack of answers
	}
	ctx, cancel := context.WithTimeout(ctx, 2*c.ttl+bound)
	defer cancel()
	leaseEnd := make(chan time.Time, 1) // when the lease ended
	go func() { <-c.lease.Done(); leaseEnd <- time.Now() }()

	var released atomic.Bool
	rivalErr := make(chan error, 1)
	var granted time.Time
	acquireForRival := func() {
		next, err := c.rival.Acquire(ctx, c.lease.Name(), locker.WithTTL(c.ttl))
		stillHeld := c.lease.Err() == nil && !released.Load()
		granted = time.Now()
		if err == nil {
			if stillHeld {
				err = fmt.Errorf("two holders: the rival has token %d, and Err of the lease with token %d is nil for another %v",
					next.Token(), c.lease.Token(), time.Until(c.lease.Deadline()).Round(time.Millisecond))
			}
			err = errors.Join(err, next.Release(context.WithoutCancel(ctx)))
		}
		rivalErr <- err
	}

	if c.waitedFor {
		go acquireForRival()
	}
	// Data that is not yet acknowledged would postpone the end of the connection.
	time.Sleep(time.Second/2 + rand.N(c.ttl/3))
	began := time.Now()
	if err := c.network.Cut(ctx, c.direction); err != nil {
		return got, err
	}
	if !c.waitedFor {
		go acquireForRival()
	}
	if !c.permanent {
		time.Sleep(c.ttl/4 + rand.N(c.ttl/2))
		if err := c.network.Heal(ctx); err != nil {
			return got, err
		}
		select { // after a TTL it is certain whether the lease survived
		case <-c.lease.Done():
		case <-time.After(c.ttl):
			released.Store(true)
			if err := c.lease.Release(ctx); err != nil && !errors.Is(err, locker.ErrLost) {
				return got, fmt.Errorf("Release after the cut = %w", err)
			}
		}
	}
	if err := <-rivalErr; err != nil {
		return got, fmt.Errorf("%v after the cut: %w", time.Since(began).Round(time.Millisecond), err)
	}
	got.granted = granted.Sub(began)
	if ended := <-leaseEnd; !released.Load() {
		// Err returns the loss at the deadline; Done is closed a little later.
		if deadline := c.lease.Deadline(); deadline.Before(ended) {
			ended = deadline
		}
		got.lost = ended.Sub(began)
		if c.permanent && got.granted > bound {
			return got, fmt.Errorf("%v, want the lock to be free within %v of the cut", got, bound)
		}
	}
	return got, nil
}
