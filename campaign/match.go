package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/fencedlock/locker/conformance/proxy"
	"github.com/fencedlock/locker/integration/netns"
)

// match is one round of one library: two contenders and one lock, which nobody else uses.
//
// Both make some updates. Then the victim acquires the lock, reads, and the fault happens. The rival
// makes updates as soon as it is granted the lock, and then holds it. When the rival holds it, or
// has had its time, the victim's section goes on: the victim writes if it believes that it has the
// lock, releases it, and at once wants it again. At last the rival releases it.
type match struct {
	backend  backend
	service  *service
	library  library
	workload workload
	fence    bool
	fault    fault
	schedule
	name   string    // of the lock
	gather *gathered // of a fault of the service

	store   *store
	network *netns.Network // of the victim; nil: its packets aren't dropped
	link    *proxy.Network // of the victim; nil: its connections don't lead through a relay
	toLose  int            // replies that the link must lose

	victim, rival *process
	injected      moment // when the fault began
	err           error  // of the fault

	background sync.WaitGroup // what the fault does meanwhile

	reading  chan struct{} // is closed when the victim has read
	broken   chan struct{} // is closed when the fault has begun
	guarding chan struct{} // is closed when the rival has made its updates, and holds the lock
	freed    chan struct{} // is closed when the rival may release it
	finished chan struct{} // is closed when the rival has done all, or can't

	begin func() // closes broken; may be called again
	free  func() // closes freed; may be called again
}

const (
	warmLimit    = 30 * time.Second       // for an acquisition without a fault
	allowance    = 4 * time.Second        // what a rival waits for longer than the TTL and the slack
	serviceLimit = 45 * time.Second       // the same after a fault of the service
	guardTime    = 300 * time.Millisecond // how long the rival holds the lock when the victim wants it again
	matchLimit   = 3 * time.Minute
)

func newMatch(
	b backend, s *service, l library, w workload, fence bool, f fault, plan schedule,
	name string, g *gathered,
) *match {
	made := func() chan struct{} { return make(chan struct{}) }
	m := &match{
		backend: b, service: s, library: l, workload: w, fence: fence, fault: f, schedule: plan, name: name, gather: g,
		store: newStore(name, w.start), reading: made(), broken: made(), guarding: made(), freed: made(), finished: made(),
	}
	m.begin = sync.OnceFunc(func() { close(m.broken) })
	m.free = sync.OnceFunc(func() { close(m.freed) })
	return m
}

// run returns what happened. After an error the round is void.
func (m *match) run(ctx context.Context) (h history, err error) {
	ctx, cancel := context.WithTimeout(ctx, matchLimit)
	defer cancel()
	defer func() {
		if m.gather != nil && m.injected == 0 {
			m.gather.leave()
		}
	}()
	if err := m.start(ctx); err != nil {
		return history{}, err
	}
	defer m.end()
	if err := m.warm(&h); err != nil {
		return history{}, err
	}
	if m.fault.beforeAcquire != nil {
		if err := m.fault.beforeAcquire(ctx, m); err != nil {
			return history{}, err
		}
	}

	var rival []section
	var rivalErr error
	go func() {
		defer close(m.finished)
		rival, rivalErr = m.compete()
	}()
	sections, err := m.victim.do(order{Do: doHold, Thinks: []time.Duration{m.Think}, Limit: warmLimit, Unchecked: m.fault.unchecked},
		func(r request) reply { return m.answerVictim(ctx, r) })
	if m.injected != 0 && len(sections) > 0 {
		h.Hold = &sections[0]
	}
	h.Killed = m.fault.kills && m.injected != 0
	if m.fault.beforeAcquire != nil && err != nil {
		h.VictimError = err.Error() // it wasn't granted the lock after the fault
	}
	if h.Killed || m.fault.beforeAcquire != nil {
		err = nil
	}
	m.again(&h)
	<-m.finished
	if err := errors.Join(err, m.err); err != nil {
		return history{}, fmt.Errorf("the victim: %w", err)
	}
	if m.injected == 0 {
		return history{}, errors.New("the victim had lost the lock before the fault")
	}
	if m.link != nil && m.link.Lost() < m.toLose {
		return history{}, errNothingLost
	}
	if rivalErr != nil {
		h.RivalError = rivalErr.Error()
	}
	h.Rival = append(h.Rival, rival...)
	h.Injected, h.Silent, h.Bound = m.injected, m.fault.silent || m.fault.timed, m.bound()
	d := m.store.data()
	h.Acknowledged, h.Refused, h.Lost = d.acknowledged(), m.store.refused, m.workload.lost(d)
	return h, nil
}

// start starts both contenders.
func (m *match) start(ctx context.Context) (err error) {
	t := task{
		Backend: m.backend.name, Library: m.library.name, Workload: m.workload.name, Number: 1, Seed: m.Seed,
		Addrs: m.service.addrs, TTL: m.backend.ttl, Name: m.name, Fence: m.fence,
	}
	if m.rival, err = startProcess(ctx, t); err != nil {
		return err
	}
	t.Number++
	if m.fault.packets {
		if m.network, err = netns.New(processes(m.service.addrs, m.service.pid)); err != nil {
			m.rival.quit()
			return err
		}
		t.Network, t.From = m.service.pid, m.network.Client()
	}
	if m.fault.relayed {
		if m.link, t.Via, err = relay(m.service.addrs); err != nil {
			m.rival.quit()
			return err
		}
	}
	t.Delay = m.fault.delay
	if m.fault.ahead != 0 {
		t.program, err = skewed.program(ctx)
	}
	if err == nil {
		m.victim, err = startProcess(ctx, t)
	}
	if err != nil {
		m.rival.quit()
		m.closeLink()
	}
	return err
}

// end leaves no rule and no process.
func (m *match) end() {
	m.background.Wait()
	if m.network != nil {
		_ = m.network.Heal(context.Background()) // the rules end with the network at the latest
	}
	if m.link != nil {
		m.link.Heal()
	}
	defer m.closeLink()
	var both sync.WaitGroup
	for _, p := range []*process{m.victim, m.rival} {
		both.Go(p.quit)
	}
	both.Wait()
}

// warm has both contenders make updates at the same time, without a fault.
func (m *match) warm(h *history) error {
	var errs [2]error
	var both sync.WaitGroup
	for i, p := range []*process{m.victim, m.rival} {
		both.Go(func() {
			sections, err := p.do(order{Do: doUpdate, Thinks: m.Warm[i], Limit: warmLimit}, m.store.answer)
			errs[i] = err
			if i == 0 {
				h.Victim = sections
			} else {
				h.Rival = sections
			}
		})
	}
	both.Wait()
	if err := errors.Join(errs[:]...); err != nil {
		return fmt.Errorf("before the fault: %w", err)
	}
	return nil
}

// answerVictim answers the requests of the victim's section.
func (m *match) answerVictim(ctx context.Context, r request) reply {
	switch r.Say {
	case sayRead:
		defer close(m.reading)
		answer := m.store.answer(r)
		answer.Ahead = m.fault.ahead
		return answer
	case sayHere:
		m.err = m.happen(ctx)
		return reply{}
	case sayOver:
		if m.fault.beforeRelease != nil {
			m.err = errors.Join(m.err, m.fault.beforeRelease(ctx, m))
		}
		return reply{}
	}
	return m.store.answer(r)
}
