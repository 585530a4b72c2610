package conformance

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance/step"
)

// increment is a critical section that was acknowledged: it has read a number and written the next
// one, with a token.
type increment struct {
	token locker.Token
	read  int
}

// fencedRegister is the model: a section reads what the previous section wrote, and its token is
// not below the highest so far. A section lasts from before Acquire until its write is
// acknowledged. A refused write has not happened.
var fencedRegister = porcupine.Model{
	Init: func() any { return increment{read: -1} },
	Step: func(state, _, output any) (bool, any) {
		before, now := state.(increment), output.(increment)
		return now.read == before.read+1 && now.token >= before.token, now
	},
}

// errRefused means that a storage has refused a holder whose lease isn't over: its token was not above
// the earlier ones, or there is a second holder.
var errRefused = errors.New("a holder is refused, though its lease isn't over")

// linearizable has clients increment a number that a fence protects. Some leases end by a longest
// hold, or by a cut of the network where the harness can cut it. Some of those holders go on
// nevertheless, and write when they have successors.
func linearizable(t T, h *Harness) {
	name, register := step.LockName(t), new(fence)
	h.wantLinearizable(t, fencedRegister, func(ctx context.Context, l locker.Locker) (any, increment, error) {
		section, err := h.section(ctx, l, name, func(locker.Lease) *fence { return register })
		return nil, section, err
	})
}

// wantLinearizable has 8 clients on 4 Lockers enter sections, and fails the case unless the history
// of those that were acknowledged fits the model. The network of each Locker is cut now and then.
// Cut off or not, a holder must not be refused while it trusts its lease.
func (h *Harness) wantLinearizable(
	t T, model porcupine.Model,
	enter func(context.Context, locker.Locker) (input any, section increment, err error),
) {
	const clients = 8
	var lockers []locker.Locker
	var links []Link
	for len(lockers) < 4 {
		if h.Linked == nil || h.TTL == 0 {
			lockers = append(lockers, h.OpenLocker(t))
			continue
		}
		l, link := h.OpenLinked(t)
		lockers, links = append(lockers, l), append(links, link)
	}
	stop := make(chan struct{})
	var faults sync.WaitGroup
	faults.Go(func() { disturb(h, links, stop) })
	calm := sync.OnceFunc(func() {
		close(stop)
		faults.Wait()
	})
	defer calm() // Contend may end the case

	began := time.Now()
	var mu sync.Mutex
	var history []porcupine.Operation
	refused := 0
	client := func(ctx context.Context, i int) error {
		call := time.Since(began).Nanoseconds()
		input, section, err := enter(ctx, lockers[i%len(lockers)])
		mu.Lock()
		defer mu.Unlock()
		switch {
		case errors.Is(err, errRefused):
			return err
		case errors.Is(err, errStale):
			refused++
		case err == nil:
			history = append(history, porcupine.Operation{
				ClientId: i, Input: input, Call: call, Output: section, Return: time.Since(began).Nanoseconds(),
			})
		}
		return nil // a fault may end any acquisition
	}
	step.Contend(t, clients, max(h.rounds(120)/clients, 5), client)
	calm()
	t.Logf("%d sections, %d stale ones refused", len(history), refused)
	if len(history) == 0 {
		t.Fatalf("no section was acknowledged")
	}
	switch porcupine.CheckOperationsTimeout(model, history, step.Limit) {
	case porcupine.Illegal:
		t.Errorf("the history is not linearizable: a stale write was accepted, or a token went back: %v", history)
	case porcupine.Unknown:
		t.Errorf("the history of %d sections could not be checked within %v", len(history), step.Limit)
	}
}

// disturb cuts the network of one client after the other, for longer and shorter than the TTL.
func disturb(h *Harness, links []Link, stop <-chan struct{}) {
	for i := 0; len(links) > 0; i++ {
		link := links[i%len(links)]
		if step.WaitClosed(stop, h.TTL/4) {
			return
		}
		link.Cut()
		over := step.WaitClosed(stop, h.TTL/4+rand.N(h.TTL))
		link.Heal()
		if over {
			return
		}
	}
}

// section is one critical section, of the register that belongs to the lease. In every third section the holder goes on after its lease has
// ended, and before that it gives others some time.
func (h *Harness) section(
	ctx context.Context, l locker.Locker, name string, registerOf func(locker.Lease) *fence,
) (increment, error) {
	stale := rand.N(3) == 0
	opts := h.ttl()
	if stale {
		opts = append(opts, locker.WithMaxHold(10*time.Millisecond))
	}
	ctx, cancel := context.WithTimeout(ctx, 4*h.short()+h.Slack)
	defer cancel()
	lease, err := acquireInBackground(ctx, l, name, opts...)
	if err != nil {
		return increment{}, err
	}
	defer func() { _ = lease.Release(ctx) }()
	register := registerOf(lease)
	n, err := register.claim(lease.Token())
	if err != nil {
		return increment{}, whileLive(lease, err)
	}
	if stale {
		step.WaitClosed(lease.Done(), step.Limit)
		step.WaitClosed(nil, rand.N(20*time.Millisecond))
	}
	err = register.write(lease.Token(), n+1)
	return increment{token: lease.Token(), read: n}, whileLive(lease, err)
}

// whileLive adds errRefused to a refusal by the storage if the lease isn't over. It asks the lease after
// the refusal: a lease never comes back, so one that is live then was live at the refusal, and when the
// larger token was claimed.
func whileLive(lease locker.Lease, refusal error) error {
	if refusal == nil || lease.Err() != nil {
		return refusal
	}
	return fmt.Errorf("%w: %w", errRefused, refusal)
}
