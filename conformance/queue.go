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
		Why: "without an order some waiter may wait forever while others get the lock several " +
			"times"},
	{ID: "B22.2", Name: "dead-waiter-is-passed-over", Run: deadWaiter, Needs: locker.RequireTTL,
		Hooks: []Hook{HookLinked},
		Why: "a process that died while it waited must not keep the lock from the waiters after " +
			"it"},
	{ID: "B22.3", Name: "nobody-barges-past-the-queue", Run: barging, Needs: locker.OrderFIFO,
		Why: "a caller that asks without waiting must not overtake the waiters, or there is no " +
			"order"},
	{ID: "B22.4", Name: "expiry-hands-over-to-the-first", Run: expiryHandsOver,
		Needs: all(locker.OrderFIFO, locker.RequireTTL),
		Why:   "the death of a holder must not change the order of the waiters"},
	{ID: "B22.5", Name: "killed-waiter-is-passed-over", Run: killedWaiter,
		Hooks: []Hook{HookProcess},
		Why: "a waiter whose process was killed must be passed over too; the kill ends its " +
			"connections and frees what is attached to them"},
	{ID: "B23", Name: "waiter-whose-session-died-does-not-hang", Run: waiterCutOff,
		Needs: locker.RequireTTL, Hooks: []Hook{HookLinked},
		Why: "a waiter that the service has forgotten waits forever, unless it notices that and " +
			"queues again or gives up"},
	{ID: "B24", Name: "long-wait-ends-in-a-live-lease", Run: longWait, Needs: locker.RequireTTL,
		Why: "after a wait that was longer than the TTL, a grant must not count from an old " +
			"refresh: such a lease would be over when it begins"},
	{ID: "B24a", Name: "waiter-keeps-its-place", Run: placeKept,
		Needs: all(locker.OrderFIFO, locker.RequireTTL),
		Why: "a place in the queue, or the session that it is attached to, must be kept alive " +
			"while its owner waits"},
	{ID: "B24a.1", Name: "lost-grant-is-found", Run: lostGrant,
		Needs: all(locker.WaitingNotify, locker.RequireTTL), Hooks: []Hook{HookLinked},
		Why: "the message that grants the lock may be lost; the waiter must find the grant by " +
			"itself, or nobody has the lock"},
}

func fifo(t T, h *Harness) {
	name := step.LockName(t)
	lease := step.Acquire(t, h.OpenLocker(t), name)
	var waiters []*step.Attempt
	for i := range 5 {
		waiters = append(waiters, step.StartAcquire(t, h.OpenLocker(t), name))
		h.WaitQueued(t, name, i+1)
	}
	for i := range waiters {
		step.Release(t, lease)
		lease = grantedInTurn(t, step.Limit, waiters, i)
	}
	step.Release(t, lease)
}

// grantedInTurn waits until waiter i has the lock, for up to d. It fails the case when a later one
// has it. The earlier ones have had their turns.
func grantedInTurn(t T, d time.Duration, waiters []*step.Attempt, i int) locker.Lease {
	t.Helper()
	step.FirstReturned(t, d, waiters[i:])
	for j := i + 1; j < len(waiters); j++ {
		if waiters[j].Returned(0) {
			t.Fatalf("waiter %d: Acquire = %s, and it is the turn of waiter %d, which came before it: a waiter that "+
				"polls has no place in a queue, and then Guarantees.Order is OrderNone", j, waiters[j], i)
		}
	}
	return waiters[i].Granted(t, 0)
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
	// The service must hear no more of the dead waiter, and must not have forgotten it yet.
	step.Pass(t, h.TTL/4)
	step.Release(t, lease)
	survivor := next.Granted(t, h.ExpiryLimit())

	// The dead waiter comes back and gives up. It must not clean up what the living waiter has.
	link.Heal()
	dead.Cancel(nil)
	dead.Refused(t, step.Limit)
	if err := step.MustReturn(t, step.Limit, "Close", dying.Close); err != nil {
		t.Logf("Close = %v", err)
	} else if h.Waiters != nil {
		if n := h.Waiters(t, name); n != 0 {
			t.Errorf("%d acquisitions wait on the service, want none: the one that waited has given up, and Close has returned nil", n)
		}
	}
	step.WantLive(t, survivor, l)
	step.Release(t, survivor)
	step.WantFree(t, l, name)
}

// barging has a third Locker ask all the time while the lock goes from one holder to another that
// waits. The third one never gets the lock, because at each moment somebody holds it or waits for
// it.
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
	step.Release(t, grantedInTurn(t, h.ExpiryLimit(), []*step.Attempt{one, two}, 0))
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
	// The place of the waiter on the service must expire.
	step.Pass(t, 2*h.TTL+h.guarantees.Expiry.Slack)
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
	step.Pass(t, 2*h.TTL) // the lease must be renewed like any other
	step.WantLive(t, next, third)
	step.Release(t, next)
	step.WantFree(t, third, name)
}

func placeKept(t T, h *Harness) {
	l, first, second, name := h.OpenLocker(t), h.OpenLocker(t), h.OpenLocker(t), step.LockName(t)
	lease := step.Acquire(t, l, name)
	one := step.StartAcquire(t, first, name, h.ttl()...)
	h.WaitQueued(t, name, 1)
	step.Pass(t, 3*h.TTL) // a place that isn't kept alive expires
	two := step.StartAcquire(t, second, name, h.ttl()...)
	h.WaitQueued(t, name, 2)
	step.Release(t, lease)
	next := one.Granted(t, h.Slack)
	two.WantPending(t)
	step.Release(t, next)
	step.Release(t, two.Granted(t, h.Slack))
}

// lostGrant loses the message alone, and then, in a second round, by a short cut of the network.
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
