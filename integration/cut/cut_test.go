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
	"github.com/fencedlock/locker/integration/internal/itest"
	"github.com/fencedlock/locker/integration/netns"
)

// TestCut takes the packets of holders away, below TCP, so that nobody acknowledges anything for them: in both directions and in each
// alone, for good and for less than the TTL, of leases that were free and of leases that were waited for. The holder must know that it
// has lost the lock before its rival gets it, and the rival must get it in time, whichever direction was cut.
//
// It does so twice: with the timers that systems have, and with limits for keepalives and retransmissions, of both kernels, that are
// shorter than the TTL. A service that ends a silent connection by these limits must not free the lock by that. Below LOCKER_SOAK the
// TTL is longer than the usual limits are, instead.
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
				t.Run("usual timers, 3 min", func(t *testing.T) { cutAll(t, at, longestCut) })
			}
			for _, pid := range at.Processes(t) {
				if err := netns.Set(pid, impatient); err != nil {
					t.Fatal(err)
				}
			}
			t.Run("short timers", func(t *testing.T) { cutAll(t, at, 10*time.Second) })
		})
	}
}

// longestCut is the longest TTL here.
const longestCut = 3 * time.Minute

// impatient are limits by which a kernel gives a connection up: after 3 s without an answer to a keepalive, and after some 3 s without
// an acknowledgement of what it has sent.
var impatient = map[string]string{
	"net/ipv4/tcp_keepalive_time":   "1",
	"net/ipv4/tcp_keepalive_intvl":  "1",
	"net/ipv4/tcp_keepalive_probes": "2",
	"net/ipv4/tcp_retries2":         "3",
}

// cut is one way to cut a holder off.
type cut struct {
	ttl     time.Duration
	d       netns.Direction
	lasting bool // for good, or else for less than the TTL
	awaited bool // the lease was waited for, and the next one waits already when the cut comes

	network       *netns.Network
	holder, rival locker.Locker
	lease         locker.Lease
}

func (c *cut) String() string {
	length, lease := "for less than the TTL", "the lock was free"
	if c.lasting {
		length = "for good"
	}
	if c.awaited {
		lease = "the lock was waited for"
	}
	return fmt.Sprintf("TTL %v, %v, %s, %s", c.ttl, c.d, length, lease)
}

// cutAll cuts holders off in all ways, at the same time.
func cutAll(t *testing.T, at *itest.CutTarget, ttl time.Duration) {
	var cuts []*cut
	for _, d := range []netns.Direction{netns.Both, netns.Requests, netns.Replies} {
		for _, lasting := range []bool{true, false} {
			for _, awaited := range []bool{true, false} {
				c := &cut{ttl: ttl, d: d, lasting: lasting, awaited: awaited}
				c.take(t, at)
				cuts = append(cuts, c)
			}
		}
	}
	var (
		mu    sync.Mutex
		least = make(map[netns.Direction]time.Duration) // between the loss and the rival's grant, of cuts for good
		runs  sync.WaitGroup
	)
	for _, c := range cuts {
		runs.Go(func() {
			got, err := c.run(t.Context())
			if err != nil {
				t.Errorf("%v: %v", c, err)
				return
			}
			t.Logf("%v: %v", c, got)
			if c.lasting {
				mu.Lock()
				defer mu.Unlock()
				least[c.d] = min(cmp.Or(least[c.d], got.spare()), got.spare())
			}
		})
	}
	runs.Wait()
	for d, spare := range least {
		t.Logf("least time to spare, TTL %v, %v: %v", ttl, d, spare.Round(time.Millisecond))
	}
}

// take gets the lock for the holder that is going to be cut off.
func (c *cut) take(t conformance.T, at *itest.CutTarget) {
	c.network = at.Network(t)
	c.holder, c.rival = itest.Keep(t, at.Through(t, c.network.Dial)), itest.Keep(t, at.Open(t))
	t.Cleanup(func() { // before the Lockers are closed
		if err := c.network.Heal(context.Background()); err != nil {
			t.Errorf("%v", err)
		}
	})
	name := itest.LockName(t)
	if !c.awaited {
		c.lease = itest.Acquire(t, c.holder, name, locker.WithTTL(c.ttl))
		return
	}
	before := itest.Acquire(t, c.rival, name, locker.WithTTL(c.ttl))
	next := itest.Wait(t, c.holder, name, locker.WithTTL(c.ttl))
	itest.Eventually(t, itest.Soon, func() error {
		if at.Waiters(t, name) == 0 {
			return errors.New("nobody waits")
		}
		return nil
	})
	itest.Release(t, before)
	c.lease = next.Granted(t, itest.Soon)
}

// passed is what came of a cut, in time since it.
type passed struct {
	lost    time.Duration // when the holder knew; 0 if it went on and released the lock later
	granted time.Duration // when the rival had it
}

func (p passed) spare() time.Duration { return p.granted - p.lost }

func (p passed) String() string {
	if p.lost == 0 {
		return "the lease went on"
	}
	return fmt.Sprintf("lost after %v, granted %v later", p.lost.Round(time.Millisecond), p.spare().Round(time.Millisecond))
}

// run cuts the holder off, somewhere between two renewals.
func (c *cut) run(ctx context.Context) (got passed, err error) {
	bound := c.ttl + c.rival.Guarantees().Expiry.Slack + itest.Soon
	if c.d == netns.Replies {
		bound += c.ttl // for as long as the holder renews a lease of which it gets no answer, the service hears of it
	}
	ctx, cancel := context.WithTimeout(ctx, 2*c.ttl+bound)
	defer cancel()
	over := make(chan time.Time, 1) // when the lease was over
	go func() { <-c.lease.Done(); over <- time.Now() }()

	var released atomic.Bool
	rival := make(chan error, 1)
	var granted time.Time
	contend := func() {
		next, err := c.rival.Acquire(ctx, c.lease.Name(), locker.WithTTL(c.ttl))
		believed := c.lease.Err() == nil && !released.Load()
		granted = time.Now()
		if err == nil {
			if believed {
				err = fmt.Errorf("two holders: the rival has token %d, and for the lease with %d Err is nil until %v from now",
					next.Token(), c.lease.Token(), time.Until(c.lease.Deadline()).Round(time.Millisecond))
			}
			err = errors.Join(err, next.Release(context.WithoutCancel(ctx)))
		}
		rival <- err
	}

	if c.awaited {
		go contend()
	}
	// What isn't acknowledged yet would postpone the end of the connection.
	time.Sleep(time.Second/2 + rand.N(c.ttl/3))
	began := time.Now()
	if err := c.network.Cut(ctx, c.d); err != nil {
		return got, err
	}
	if !c.awaited {
		go contend()
	}
	if !c.lasting {
		time.Sleep(c.ttl/4 + rand.N(c.ttl/2))
		if err := c.network.Heal(ctx); err != nil {
			return got, err
		}
		select { // in a TTL it is decided
		case <-c.lease.Done():
		case <-time.After(c.ttl):
			released.Store(true)
			if err := c.lease.Release(ctx); err != nil && !errors.Is(err, locker.ErrLost) {
				return got, fmt.Errorf("Release after the cut = %w", err)
			}
		}
	}
	if err := <-rival; err != nil {
		return got, fmt.Errorf("%v after the cut: %w", time.Since(began).Round(time.Millisecond), err)
	}
	got.granted = granted.Sub(began)
	if ended := <-over; !released.Load() {
		if deadline := c.lease.Deadline(); deadline.Before(ended) { // Err knows it by then; Done follows
			ended = deadline
		}
		got.lost = ended.Sub(began)
		if c.lasting && got.granted > bound {
			return got, fmt.Errorf("%v, want the lock to be free %v after the cut", got, bound)
		}
	}
	return got, nil
}
