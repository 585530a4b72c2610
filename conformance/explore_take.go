package conformance

import "strconv"

// What the steps of a program do.

// take begins one step.
func (x *execution) take(s Step) {
	if s.Locker >= len(x.p.Lockers) && len(x.p.Lockers) > 0 {
		return
	}
	p := x.stranger
	if len(x.p.Lockers) > 0 {
		p = x.parties[s.Locker]
	}
	switch s.Do {
	case "acquire":
		for i := range s.count() {
			if s.Spread > 0 {
				p = x.parties[min(s.Locker+i%s.Spread, len(x.parties)-1)]
			}
			x.acquire(p, s, s.ID+i, x.nameOf(p, s, i))
		}
	case "renew", "release", "cancel", "probe", "remove", "nest":
		for i := range s.count() {
			x.mu.Lock()
			a := x.attempts[s.ID+i]
			x.mu.Unlock()
			if a != nil {
				x.concern(a, s)
			}
		}
	case "read":
		x.read(p, x.nameOf(p, s, 0))
	case "invalid":
		x.invalid(p, x.nameOf(p, s, 0), s.N)
	case "close":
		x.close(p)
	case "pause", "resume", "down", "up", "restart", "wipe", "failover":
		x.disturbService(s.Do)
	default:
		if p.link != nil {
			x.disturbLink(p, s)
		}
	}
}

func (x *execution) nameOf(p *party, s Step, i int) string {
	text := ""
	if s.Name < len(x.p.Names) {
		text = x.p.Names[s.Name]
	}
	prefixed := p.opening.Prefix != "" && x.h.Prefixed != nil && p.link == nil
	name := lockName(x.base, text, prefixed)
	if s.Count > 0 && !s.Same {
		name = member(name, i)
	}
	return name
}

// lockOf is the identity of a lock or a slot that p acquires.
func (x *execution) lockOf(p *party, name string) string {
	lock := x.nameLock(p, name)
	if p.opening.Slot != 0 {
		lock += "\x00" + strconv.Itoa(p.opening.Slot)
	}
	return lock
}

// nameLock is the identity of the lock of a name.
func (x *execution) nameLock(p *party, name string) string {
	if p.link == nil && p.opening.Prefix != "" && x.h.Prefixed != nil {
		return x.base + p.opening.Prefix + "\x00" + name
	}
	return "\x00" + name
}

// concern does to an attempt what a step says.
func (x *execution) concern(a *attempt, s Step) {
	switch s.Do {
	case "renew":
		x.renew(a)
	case "release":
		x.release(a, s.Over)
	case "nest":
		x.nest(a)
	case "cancel":
		x.locked(func() {
			if !a.cancelled.happened() {
				a.cancelled = x.now()
				if a.pending() {
					x.note("%v is cancelled", a)
				}
			}
		})
		a.cancel(errGiveUp)
	case "probe":
		if a.lock == x.lockOf(x.stranger, a.name) {
			x.probe(a.name)
		}
	case "remove":
		x.remove(a)
	}
}
