package main

import "time"

// compete is what the rival does after the victim has read.
func (m *match) compete() (all []section, err error) {
	begin := m.broken
	if m.Waits && m.fault.beforeAcquire == nil {
		begin = m.reading
	}
	select {
	case <-begin:
	case <-time.After(warmLimit + m.backend.ttl): // the victim has failed
	}
	if !m.Waits {
		time.Sleep(m.Late)
	}
	all, err = m.rival.do(order{Do: doUpdate, Thinks: m.Rival, Limit: m.limit()}, m.store.answer)
	if err != nil {
		return all, err
	}
	guard, err := m.rival.do(order{Do: doGuard, Limit: warmLimit}, func(request) reply {
		close(m.guarding)
		<-m.freed
		return reply{}
	})
	return append(all, guard...), err
}

// again has the victim want the lock again, while the rival holds it.
func (m *match) again(h *history) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		if m.victim.gone {
			return
		}
		sections, err := m.victim.do(order{Do: doUpdate, Thinks: []time.Duration{m.Victim}, Limit: warmLimit}, m.store.answer)
		h.Victim = append(h.Victim, sections...)
		if err != nil {
			h.VictimError = err.Error()
		}
	}()
	select {
	case <-m.guarding:
	case <-m.finished:
	}
	select {
	case <-done:
	case <-time.After(guardTime):
	}
	m.free()
	<-done
}

// bound is how long after the fault somebody else should be granted the lock at the latest.
func (m *match) bound() time.Duration {
	d := m.backend.ttl + m.rival.slack
	if m.fault.renews {
		d += m.backend.ttl
	}
	if m.fault.elects {
		d *= 2
	}
	return d
}

// limit is for how long a rival waits. After a fault of the service that may be long: the servers
// have to start, and some stay away from their clients for a while.
func (m *match) limit() time.Duration {
	if m.gather != nil {
		return serviceLimit
	}
	return m.bound() + m.backend.ttl/2 + allowance
}
