package conformance

import (
	"errors"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance/process"
	"github.com/fencedlock/locker/conformance/step"
)

var queueCases = []Case{
	{ID: "B22.1", Name: "first-come-first-served", Run: fifo, Needs: locker.OrderFIFO,
		Why: "without an order some waiter may wait for ever while others get the lock again and again"},
	{ID: "B22.2", Name: "dead-waiter-is-passed-over", Run: deadWaiter, Needs: locker.RequireTTL, Hooks: []Hook{HookLinked},
		Why: "a process that died while it waited must not keep the lock from those behind it"},
	{ID: "B22.3", Name: "nobody-barges-past-the-queue", Run: barging, Needs: locker.OrderFIFO,
		Why: "whoever asks without waiting must not overtake those who have waited, or the order is none"},
	{ID: "B22.4", Name: "expiry-hands-over-to-the-first", Run: expiryHandsOver, Needs: all(locker.OrderFIFO, locker.RequireTTL),
		Why: "a holder that died must not cost the waiters their order"},
	{ID: "B22.5", Name: "killed-waiter-is-passed-over", Run: killedWaiter, Hooks: []Hook{HookProcess},
		Why: "the same when its process was killed, which ends its connections and frees what hangs on them"},
	{ID: "B23", Name: "waiter-whose-session-died-does-not-hang", Run: waiterCutOff, Needs: locker.RequireTTL, Hooks: []Hook{HookLinked},
		Why: "a waiter that the service has forgotten waits for ever, unless it finds that out and queues anew or gives up"},
	{ID: "B24", Name: "long-wait-ends-in-a-live-lease", Run: longWait, Needs: locker.RequireTTL,
		Why: "what was queued for longer than the TTL must not be granted on a refresh of long ago: the lease would be over as it begins"},
	{ID: "B24a", Name: "waiter-keeps-its-place", Run: placeKept, Needs: all(locker.OrderFIFO, locker.RequireTTL),
		Why: "a place in the queue, or the session that it hangs on, must be kept alive while its owner waits"},
	{ID: "B24a.1", Name: "lost-grant-is-found", Run: lostGrant, Needs: all(locker.WaitingNotify, locker.RequireTTL), Hooks: []Hook{HookLinked},
		Why: "the message that grants the lock may be lost; the waiter must find out by itself, or the lock is held by nobody"},
}

func fifo(t T, h *Harness) {
	name := step.LockName(t)
	lease := step.Acquire(t, h.OpenLocker(t), name)
	var waiters []*step.Attempt
	for i := range 5 {
		waiters = append(waiters, step.StartAcquire(t, h.OpenLocker(t), name))
		h.WaitQueued(t, name, i+1)
	}
	for i, w := range waiters {
		step.Release(t, lease)
		lease = w.Granted(t, step.Limit)
		for j, later := range waiters[i+1:] {
			if later.Returned(0) {
				t.Fatalf("waiter %d: Acquire = %s, and it is the turn of waiter %d", i+1+j, later, i)
			}
		}
	}
	step.Release(t, lease)
}

func deadWaiter(t T, h *Harness) {
	l, living, name := h.OpenLocker(t), h.OpenLocker(t), step.LockName(t)
	dying, link := h.OpenLinked(t)
	lease := step.Acquire(t, l, name)
	dead := step.StartAcquire(t, dying, name, h.ttl()...)
	h.WaitQueued(t, name, 1)
	next := step.StartAcquire(t, living, name)
	h.WaitQueued(t, name, 2)
	link.Cut()
	step.Pass(t, h.TTL/4) // so that the dead one is heard no more, and not yet forgotten
	step.Release(t, lease)
	survivor := next.Granted(t, h.ExpiryLimit())

	// The dead one comes back and gives up; what it cleans up must not be the living one's.
	link.Heal()
	dead.Cancel(nil)
	dead.Refused(t, step.Limit)
	if err := step.MustReturn(t, step.Limit, "Close", dying.Close); err != nil {
		t.Logf("Close = %v", err)
	}
	step.WantLive(t, survivor, l)
	step.Release(t, survivor)
	step.WantFree(t, l, name)
}

// barging has a third Locker ask all the time while the lock goes from one to another who waits. It never gets a turn,
// because at each moment somebody has the lock or is waiting for it.
func barging(t T, h *Harness) {
	l, other, third, name := h.OpenLocker(t), h.OpenLocker(t), h.OpenLocker(t), step.LockName(t)
	lease := step.Acquire(t, l, name)
	for range h.rounds(20) {
		waiter := step.StartAcquire(t, other, name)
		h.WaitQueued(t, name, 1)
		barger := make(chan error, 1)
		begun, stop := make(chan struct{}), make(chan struct{})
		go func() { barger <- askUntil(t, third, name, begun, stop) }()
		<-begun
		step.Release(t, lease)
		lease = waiter.Granted(t, step.Limit)
		close(stop)
		if err := <-barger; err != nil {
			t.Fatalf("%v", err)
		}
		l, other = other, l
	}
	step.Release(t, lease)
}

// askUntil asks without waiting until stop is closed. Any answer but ErrHeld is an error.
func askUntil(t T, l locker.Locker, name string, begun, stop chan struct{}) error {
	for i := 0; ; i++ {
		lease, err := tryInBackground(t.Context(), l, name)
		switch {
		case err == nil:
			_ = lease.Release(t.Context())
			err = errors.New("TryAcquire got the lock, and somebody else was waiting for it")
		case errors.Is(err, locker.ErrHeld):
			err = nil
		}
		if i == 0 {
			close(begun)
		}
		if err != nil || step.IsClosed(stop) {
			return err
		}
		time.Sleep(time.Millisecond / 10) // so that the service has time for others
	}
}

func expiryHandsOver(t T, h *Harness) {
	l, first, second, name := h.OpenLocker(t), h.OpenLocker(t), h.OpenLocker(t), step.LockName(t)
	step.Acquire(t, l, name, h.ttl(locker.WithoutRenewal())...)
	one := step.StartAcquire(t, first, name)
	h.WaitQueued(t, name, 1)
	two := step.StartAcquire(t, second, name)
	h.WaitQueued(t, name, 2)
	next := one.Granted(t, h.ExpiryLimit())
	two.WantPending(t)
	step.Release(t, next)
	step.Release(t, two.Granted(t, step.Limit))
}

func killedWaiter(t T, h *Harness) {
	l, living, name := h.OpenLocker(t), h.OpenLocker(t), step.LockName(t)
	p := h.Process(t)
	lease := step.Acquire(t, l, name)
	process.Begin(t, p, process.Command{Verb: process.Acquire, Name: name, TTL: h.TTL})
	h.WaitQueued(t, name, 1)
	next := step.StartAcquire(t, living, name)
	h.WaitQueued(t, name, 2)
	p.Kill()
	step.Release(t, lease)
	step.Release(t, next.Granted(t, h.DeathLimit()))
}

func waiterCutOff(t T, h *Harness) {
	l, other, name := h.OpenLocker(t), h.OpenLocker(t), step.LockName(t)
	waiting, link := h.OpenLinked(t)
	lease := step.Acquire(t, l, name)
	waiter := step.StartAcquire(t, waiting, name, h.ttl()...)
	h.WaitQueued(t, name, 1)
	link.Cut()
	step.Pass(t, 2*h.TTL+h.guarantees.Expiry.Slack) // what the waiter has on the service must die
	link.Heal()
	step.Release(t, lease)
	if !waiter.Returned(h.RemovalLimit()) {
		t.Fatalf("Acquire has not returned %v after the network was healed and the lock released", h.RemovalLimit())
	}
	if waiter.Err != nil {
		t.Logf("the waiter gave up: %v", waiter.Err)
		step.FreeWithin(t, h.RemovalLimit(), other, name)
		return
	}
	step.WantLive(t, waiter.Lease, other)
	step.Release(t, waiter.Lease)
	step.FreeWithin(t, h.RemovalLimit(), other, name)
}

func longWait(t T, h *Harness) {
	l, other, third, name := h.OpenLocker(t), h.OpenLocker(t), h.OpenLocker(t), step.LockName(t)
	lease := step.Acquire(t, l, name)
	waiter := step.StartAcquire(t, other, name, h.ttl()...)
	step.Pass(t, 3*h.TTL) // the waiter must have waited for longer than its TTL
	waiter.WantPending(t)
	step.Release(t, lease)
	next := waiter.Granted(t, step.Limit)
	if left := time.Until(next.Deadline()); left < h.TTL/4 {
		t.Errorf("the deadline is %v away when the lease begins, want about the TTL %v", left, h.TTL)
	}
	step.WantLive(t, next, third)
	step.Pass(t, 2*h.TTL) // the lease must be renewed as any other
	step.WantLive(t, next, third)
	step.Release(t, next)
	step.WantFree(t, third, name)
}

func placeKept(t T, h *Harness) {
	l, first, second, name := h.OpenLocker(t), h.OpenLocker(t), h.OpenLocker(t), step.LockName(t)
	lease := step.Acquire(t, l, name)
	one := step.StartAcquire(t, first, name, h.ttl()...)
	h.WaitQueued(t, name, 1)
	step.Pass(t, 3*h.TTL) // a place that isn't kept alive dies
	two := step.StartAcquire(t, second, name, h.ttl()...)
	h.WaitQueued(t, name, 2)
	step.Release(t, lease)
	next := one.Granted(t, h.Slack)
	two.WantPending(t)
	step.Release(t, next)
	step.Release(t, two.Granted(t, h.Slack))
}

// lostGrant loses the message alone, and then in a network that is away for the moment.
func lostGrant(t T, h *Harness) {
	for _, lose := range []func(Link){func(link Link) { link.Drop(1) }, Link.Cut} {
		l, other, name := h.OpenLocker(t), h.OpenLocker(t), step.LockName(t)
		waiting, link := h.OpenLinked(t)
		lease := step.Acquire(t, l, name)
		waiter := step.StartAcquire(t, waiting, name, h.ttl()...)
		h.WaitQueued(t, name, 1)
		lose(link)
		step.Release(t, lease)
		step.Pass(t, h.TTL/20) // the message must be on its way
		link.Heal()
		next := waiter.Granted(t, h.TTL+h.Slack)
		step.WantLive(t, next, other)
		step.Release(t, next)
		step.FreeWithin(t, h.RemovalLimit(), other, name)
	}
}
