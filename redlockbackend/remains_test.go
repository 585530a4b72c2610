package redlockbackend_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/internal/redisconn/redistest"
	"github.com/fencedlock/locker/redlockbackend"
)

var (
	heldByOther = text("held 5000 0 other")
	differs     = redistest.Bulk("differs 5000")
)

const (
	noPermission = "-NOPERM you may not\r\n"
	loading      = "-LOADING Redis is loading the dataset in memory\r\n"
)

func isPartial(err error) bool { return errors.As(err, new(*driver.PartialReleaseError)) }

// releasedSoFar calls Release when all servers have answered but the silent ones, and returns whether that
// says that the lock is free.
func (c *cluster) releasedSoFar(t *testing.T, l driver.Lock, answering, silent int) bool {
	t.Helper()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := l.Release(ended); err == nil {
		t.Fatal("Release = nil, and servers are still to answer")
	}
	eventually(t, func() error {
		if c.sentReleases() < answering+silent || redlockbackend.Busy(c.Driver) != silent {
			return errors.New("servers that answer are still to answer")
		}
		return nil
	})
	err := l.Release(ended)
	if err == nil {
		t.Fatal("Release = nil, and servers are still to answer")
	}
	return isPartial(err)
}

func (c *cluster) sentReleases() (n int) {
	for _, called := range c.called("release") {
		n += called
	}
	return n
}

// A lock is free for others when they can get it on a majority: where nothing of the lease is left, and
// the server lets somebody in.
func TestReleasedWhenOthersCanGetIt(t *testing.T) {
	for _, c := range []struct {
		what    string
		acquire []string
		confirm int // the first servers confirm the release, and the others that have the lease don't answer
		free    bool
	}{
		{"all have it", []string{raised, raised, raised}, 1, false},
		{"all have it, and a majority confirms", []string{raised, raised, raised}, 2, true},
		{"one waits", []string{raised, raised, waits}, 1, false},
		{"one refuses", []string{raised, raised, noPermission}, 1, false},
		{"one is loading", []string{raised, raised, loading}, 1, false},
		{"one knows another longest TTL", []string{raised, raised, differs}, 1, false},
		{"one has another holder", []string{raised, raised, heldByOther}, 1, false},
		{"the answer of one is lost", []string{raised, raised, hangUp}, 1, false},
		{"a minority is out, one confirms", []string{raised, raised, raised, waits, noPermission}, 1, false},
		{"a minority is out, two confirm", []string{raised, raised, raised, waits, noPermission}, 2, false},
		{"one is out, two confirm", []string{raised, raised, raised, raised, waits}, 2, false},
		{"one is out, a majority confirms", []string{raised, raised, raised, raised, waits}, 3, true},
	} {
		t.Run(c.what, func(t *testing.T) {
			cl := newCluster(t, len(c.acquire), 10*time.Second)
			cl.answer("acquire", c.acquire...)
			l := cl.lock(t, true)
			if _, err := l.Acquire(t.Context()); err != nil {
				t.Fatal(err)
			}
			redlockbackend.AwaitIdle(t.Context(), cl.Driver)
			var open []func()
			for i := c.confirm; i < len(c.acquire) && c.acquire[i] == raised; i++ {
				open = append(open, cl.servers[i].gated(t, "release", text("released")))
			}
			if free := cl.releasedSoFar(t, l, c.confirm, len(open)); free != c.free {
				t.Errorf("Release when %d servers have confirmed says that the lock is free: %v, want %v", c.confirm, free, c.free)
			}
			for _, answer := range open {
				answer()
			}
			if err := l.Release(t.Context()); err != nil && !isPartial(err) {
				t.Errorf("Release while the others answer = %v, want that the lock is free", err)
			}
			redlockbackend.AwaitIdle(t.Context(), cl.Driver)
			if err := l.Release(t.Context()); err != nil {
				t.Errorf("Release when all have answered = %v, want nil", err)
			}
		})
	}
}

// When nobody is left to answer, the error of a lock that isn't free names the server that has it, and the
// one that lets nobody in. The next call asks again.
func TestReleaseFailsWhileOthersAreKeptOut(t *testing.T) {
	for what, out := range map[string]string{"waits": waits, "refuses": noPermission, "held": heldByOther} {
		t.Run(what, func(t *testing.T) {
			c := newCluster(t, 3, 10*time.Second)
			c.answer("acquire", raised, raised, out)
			l := c.lock(t, true)
			if _, err := l.Acquire(t.Context()); err != nil {
				t.Fatal(err)
			}
			redlockbackend.AwaitIdle(t.Context(), c.Driver)
			c.answer("release", text("released"), hangUp)
			err := l.Release(t.Context())
			if err == nil || isPartial(err) {
				t.Fatalf("Release while one server has it and one lets nobody in = %v, want an error", err)
			}
			for _, s := range c.servers[1:] {
				if !strings.Contains(err.Error(), s.addr) {
					t.Errorf("Release = %v, want that it names %s", err, s.addr)
				}
			}
			c.servers[1].answers("release", text("released"))
			if err := l.Release(t.Context()); err != nil {
				t.Errorf("Release when the server is back = %v, want nil", err)
			}
		})
	}
}

// A server that has forgotten a lease lets nobody in for a while, though it confirms the release.
func TestReleaseDoesNotCountServerThatHasForgotten(t *testing.T) {
	c, l := grantedByAll(t)
	c.answer("renew", renewed, renewed, waits)
	if _, err := c.renew(t, l); err != nil {
		t.Fatal(err)
	}
	redlockbackend.AwaitIdle(t.Context(), c.Driver)
	answer := c.servers[1].gated(t, "release", text("released"))
	if c.releasedSoFar(t, l, 2, 1) {
		t.Error("Release says that the lock is free, and the server that has forgotten it lets nobody in")
	}
	answer()
	redlockbackend.AwaitIdle(t.Context(), c.Driver)
	if err := l.Release(t.Context()); err != nil {
		t.Errorf("Release when all have answered = %v, want nil", err)
	}
}

// A server that has said that the lease is gone may have another holder.
func TestReleaseDoesNotCountServerThatHasLostTheLease(t *testing.T) {
	c, l := grantedByAll(t)
	c.answer("renew", renewed, renewed, gone)
	if _, err := c.renew(t, l); err != nil {
		t.Fatal(err)
	}
	redlockbackend.AwaitIdle(t.Context(), c.Driver)
	c.answer("release", text("released"), loading)
	if err := l.Release(t.Context()); err == nil || isPartial(err) || !strings.Contains(err.Error(), c.servers[2].addr) {
		t.Errorf("Release while one server has the lease and another has lost it = %v, want an error that names both", err)
	}
	c.servers[1].answers("release", text("released"))
	if err := l.Release(t.Context()); err != nil {
		t.Errorf("Release when all have answered = %v, want nil", err)
	}
}

// The same of a server that has said so in the second phase of the acquisition.
func TestServerThatWasLostWhileAcquiringKeepsOut(t *testing.T) {
	if redlockbackend.KeepsOutAfterSecondPhase(false) {
		t.Error("a server that has agreed to the larger token keeps others out")
	}
	if !redlockbackend.KeepsOutAfterSecondPhase(true) {
		t.Error("a server that has lost the lock between the phases counts as one that lets others in")
	}
}

// A renewal that comes after the release finds the lock gone, which says nothing of another holder.
func TestServerWhereTheLockWasReleasedKeepsNobodyOut(t *testing.T) {
	if !redlockbackend.KeepsOutAfterRenewal(false) {
		t.Error("a server that has lost the lock counts as one that lets others in")
	}
	if redlockbackend.KeepsOutAfterRenewal(true) {
		t.Error("a server where the lock was released keeps others out")
	}
}

// What an acquisition has left that found the lock held keeps nobody out when the holder releases it.
func TestRemainderOfFailedAcquisitionKeepsNobodyOut(t *testing.T) {
	c := newCluster(t, 3, 10*time.Second)
	c.answer("acquire", heldByOther, heldByOther)
	answer := c.servers[2].gated(t, "acquire", raised)
	l := c.lock(t, true)
	if err := c.acquireFromAll(t, l, heldByOther); err == nil {
		t.Fatal("Acquire = nil, want that the lock is held")
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := l.Release(ended); !isPartial(err) {
		t.Errorf("Release = %v, want that nobody is kept out", err)
	}
	answer()
	redlockbackend.AwaitIdle(t.Context(), c.Driver)
	if err := l.Release(t.Context()); err != nil {
		t.Errorf("Release when all have answered = %v, want nil", err)
	}
	if got := c.called("release"); !slices.Equal(got, []int{0, 0, 1}) {
		t.Errorf("release was sent %v times, want once to the server that has granted", got)
	}
}

// A place in a queue, which a waiter has left, keeps nobody out, whatever the other servers do.
func TestPlaceOfAWaiterKeepsNobodyOut(t *testing.T) {
	c := newCluster(t, 3, 10*time.Second)
	c.answer("acquire", heldByOther, heldByOther, loading)
	l := c.lock(t, false)
	if _, err := l.Acquire(t.Context()); !errors.Is(err, driver.ErrQueued) {
		t.Fatalf("Acquire = %v, want that it has queued", err)
	}
	redlockbackend.AwaitIdle(t.Context(), c.Driver)
	answer := c.servers[1].gated(t, "release", text("released"))
	if !c.releasedSoFar(t, l, 1, 1) {
		t.Error("Release says that others are kept out, and only a place in a queue is left")
	}
	answer()
	redlockbackend.AwaitIdle(t.Context(), c.Driver)
	if err := l.Release(t.Context()); err != nil {
		t.Errorf("Release when all have answered = %v, want nil", err)
	}
}

// A place keeps nobody out either where the servers that have it were asked once more, and refused that.
func TestPlaceOnServersThatRefuseKeepsNobodyOut(t *testing.T) {
	c := newCluster(t, 3, 10*time.Second)
	l := waiter(t, c)
	redlockbackend.AwaitIdle(t.Context(), c.Driver)
	c.answer("acquire", heldByOther, loading, loading)
	ctx, cancel := context.WithCancel(t.Context())
	done := waiting(ctx, l)
	for i := range c.servers {
		c.asked(t, i, "acquire", 2)
	}
	redlockbackend.AwaitIdle(t.Context(), c.Driver)
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Fatalf("Acquire that was given up = %v", err)
	}
	c.answer("release", text("released"), loading, loading)
	for range 2 {
		if err := l.Release(t.Context()); !isPartial(err) {
			t.Errorf("Release while two servers refuse it = %v, want that only places are left", err)
		}
		redlockbackend.AwaitIdle(t.Context(), c.Driver)
	}
	c.answer("release", text("released"), text("released"), text("released"))
	eventually(t, func() error { return l.Release(t.Context()) })
}

// A place keeps nobody out either where the other servers take no part.
func TestPlaceKeepsNobodyOutWhereOthersTakeNoPart(t *testing.T) {
	c := newCluster(t, 3, 10*time.Second)
	c.answer("acquire", waits, waits, heldByOther)
	l := c.lock(t, false)
	if err := c.acquireFromAll(t, l, waits); !errors.Is(err, driver.ErrQueued) {
		t.Fatalf("Acquire = %v, want that it has queued", err)
	}
	redlockbackend.AwaitIdle(t.Context(), c.Driver)
	answer := c.servers[2].gated(t, "release", text("released"))
	if !c.releasedSoFar(t, l, 0, 1) {
		t.Error("Release says that others are kept out, and only a place in a queue is left")
	}
	answer()
	redlockbackend.AwaitIdle(t.Context(), c.Driver)
	if err := l.Release(t.Context()); err != nil {
		t.Errorf("Release when all have answered = %v, want nil", err)
	}
}

// unclosed is a driver that the test closes, and not the engine.
type unclosed struct{ driver.Driver }

func (unclosed) Close(context.Context) error { return nil }

// The holder's Release says that the lock isn't free, and the removal goes on until it is.
func TestHolderLearnsThatOthersAreKeptOut(t *testing.T) {
	c := newCluster(t, 3, 10*time.Second)
	c.answer("acquire", raised, raised, waits)
	c.answer("release", text("released"), hangUp)
	l := driver.New(unclosed{c.Driver}, driver.Config{TTL: ttl})
	lease, err := locker.TryAcquire(t.Context(), l, "a")
	if err != nil {
		t.Fatal(err)
	}
	redlockbackend.AwaitIdle(t.Context(), c.Driver)
	if err := lease.Release(t.Context()); !errors.Is(err, locker.ErrUnconfirmed) {
		t.Errorf("Release = %v, want ErrUnconfirmed: one server has it, and one lets nobody in", err)
	}
	c.servers[1].answers("release", text("released"))
	if err := l.Close(); err != nil {
		t.Errorf("Close = %v, want nil: all have answered", err)
	}
	if n := c.servers[1].called("release"); n <= redlockbackend.MaxReleaseTries {
		t.Errorf("release was sent %d times, want that the next call has asked again", n)
	}
}
