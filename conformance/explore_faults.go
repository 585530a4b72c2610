package conformance

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/fencedlock/locker"
)

// The faults of a program.

// disturbLink does to a link what a step says.
func (x *execution) disturbLink(p *party, s Step) {
	oneWay, _ := p.link.(OneWayLink)
	message, _ := p.link.(MessageLink)
	var do func()
	switch s.Do {
	case "cut":
		do = p.link.Cut
	case "sever":
		do = p.link.Sever
	case "drop":
		do = func() { p.link.Drop(max(s.N, 1)) }
	case "delay":
		do = func() { p.link.Delay(s.There, s.Back) }
	case "forget":
		do = x.h.forgets(p.link)
	case "cut-requests":
		do = ifHas(oneWay != nil, func() { oneWay.CutRequests() })
	case "cut-replies":
		do = ifHas(oneWay != nil, func() { oneWay.CutReplies() })
	case "lose-request":
		do = ifHas(message != nil, func() { message.LoseRequest(max(s.N, 1)) })
	case "lose-reply":
		do = ifHas(message != nil, func() { message.LoseReply(max(s.N, 1)) })
	case "repeat-request":
		do = ifHas(message != nil, func() { message.RepeatRequest(max(s.N, 1), s.There) })
	case "delay-request":
		do = ifHas(message != nil, func() { message.DelayRequest(max(s.N, 1), s.There) })
	case "heal":
		x.heal(p)
		return
	}
	if do == nil {
		return
	}
	f := &fault{kind: s.Do, late: s.There}
	x.locked(func() {
		x.steps++
		f.from = time.Now()
		p.faults = append(p.faults, f)
		p.there, p.back = max(p.there, s.There), max(p.back, s.Back)
		x.note("FAULT: %s of locker %d%s", s.Do, p.number, detail(s))
		x.doubted(p, s.Do)
	})
	do()
	if s.Do == "sever" {
		x.locked(func() { f.to = time.Now() })
	}
}

// forgets returns what has a link forget its connections; nil: it can't, or the harness has a reason why
// nothing can be expected then.
func (h *Harness) forgets(l Link) func() {
	forgetful, can := l.(ForgetfulLink)
	if _, absent := h.Absent[HookForgetful]; absent || !can {
		return nil
	}
	return forgetful.Forget
}

func ifHas(has bool, do func()) func() {
	if !has {
		return nil
	}
	return do
}

func detail(s Step) string {
	text := ""
	if s.N > 0 {
		text += " " + strconv.Itoa(s.N)
	}
	if s.There > 0 || s.Back > 0 {
		text += ", there " + s.There.String() + ", back " + s.Back.String()
	}
	return text
}

// heal ends the faults of a link. What was delayed is still on its way.
func (x *execution) heal(p *party) {
	p.link.Heal()
	x.locked(func() {
		if slices.ContainsFunc(p.faults, func(f *fault) bool { return f.to.IsZero() }) {
			x.note("the link of locker %d is healed; what was delayed still arrives", p.number)
		}
		now := time.Now()
		for _, f := range p.faults {
			if f.to.IsZero() {
				f.healed, f.to = now, now.Add(p.there+p.back)
			}
		}
		p.there, p.back = 0, 0
	})
}

// instantly says which faults of the service are over when their hook returns and the service has
// recovered.
var instantly = map[Verb]bool{"restart": true, "wipe": true, "failover": true}

// ends says which fault a verb ends.
var ends = map[Verb]Verb{"resume": "pause", "up": "down"}

func (x *execution) disturbService(do Verb) {
	hooks := map[Verb]func(T){"restart": x.h.Restart, "wipe": x.h.Wipe, "failover": x.h.Failover}
	if x.h.lack(HookPause) == "" {
		hooks["pause"], hooks["resume"] = x.h.Pause, x.h.Resume
	}
	if x.h.lack(HookDown) == "" {
		hooks["down"], hooks["up"] = x.h.Down, x.h.Up
	}
	hook := hooks[do]
	begun, isEnd := ends[do]
	under := x.serviceFault(begun)
	if hook == nil || isEnd && under == nil || !isEnd && x.serviceFault("pause") != nil || !isEnd && x.serviceFault("down") != nil {
		return // one fault of the service at a time
	}
	f := &fault{kind: do}
	x.locked(func() {
		x.steps++
		x.note("SERVICE: %s", do)
		if !isEnd {
			f.from = time.Now()
			x.faults = append(x.faults, f)
			x.doubted(nil, do)
		}
	})
	apart(x.labels, func() { hook(x.t) }) // a server that it starts goes on after the program
	x.locked(func() {
		switch {
		case do == "up":
			under.to = time.Now().Add(x.h.Recovery)
		case isEnd:
			under.to = time.Now()
		case instantly[do]:
			f.to = time.Now().Add(x.h.Recovery)
			x.doubted(nil, do) // what was acquired in the meantime
		}
	})
}

// serviceFault returns the fault of this kind that goes on.
func (x *execution) serviceFault(kind Verb) *fault {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, f := range x.faults {
		if f.kind == kind && f.to.IsZero() {
			return f
		}
	}
	return nil
}

func (x *execution) healAll() {
	for _, p := range x.parties {
		if p.link != nil {
			x.heal(p)
		}
	}
	x.disturbService("resume")
	x.disturbService("up")
}

// remove has an operator remove a lock, if somebody holds it: the hook fails otherwise, and that
// failure is none of the program's.
func (x *execution) remove(a *attempt) {
	if x.h.Remove == nil || a.lock != x.nameLock(x.stranger, a.name) {
		return
	}
	var sure *attempt
	var began moment
	f := &fault{kind: "remove"}
	x.locked(func() {
		if sure = x.holder(a.lock); sure == nil {
			return
		}
		x.steps++
		began, f.from = x.now(), time.Now()
		x.note("an operator removes %q, which %v holds", a.name, sure)
		sure.doubt = "an operator removes it" // it may be lost before the hook has returned
		if x.h.guarantees.Expiry.By != locker.ExpiryKey {
			sure.party.faults = append(sure.party.faults, f) // the operator may end what all are attached to
			x.doubted(sure.party, f.kind)
		}
	})
	if sure == nil {
		return
	}
	var done *recorder
	apart(x.labels, func() {
		done = record(context.Background(), x.t.Name(), func(t T) { x.h.Remove(t, a.name) })
	})
	x.locked(func() {
		f.to = time.Now()
		if !done.Failed() && sure.isLive() && !sure.asked.happened() { // so it was its lock
			sure.mustEnd = x.mustEnd(sure)
		}
		if x.disturbed(sure.party, sure.began.at, time.Now(), anyButRemoval) || sure.asked.happened() {
			sure = nil // somebody else may have had it by then
		}
		x.removed(a.lock, began, sure)
	})
}
