// Package redlockmodel is what one server of Redlock does with one request about one lock, in Go.
//
// It is connected at both ends, so that neither can drift from the other: the model checker in this
// package's tests is built on these steps, and a test in integration compares them, answer by
// answer and key by key, with the scripts on a real Redis.
//
// Waiters are left out. A lock that is kept for a waiter was free. It is like a lock that somebody
// else has got, and that expires when the waiter comes: it keeps all others out, and is nobody's
// lease. The model assumes that all Lockers of a server agree on the longest TTL: the scripts
// refuse a Locker that doesn't.
package redlockmodel

// Owner is an attempt to acquire, from 1 on; 0 is nobody.
type Owner uint8

// Token is a fencing token, from 1 on; 0 is none. The model has small numbers: what counts is their
// order, and which is the next.
type Token uint8

// Node is what a server knows about one lock.
type Node struct {
	Holder Owner // of the lock's key, which may expire at any time: Expire
	Raised Token // in the lock's key: to what its holder has raised the counter; 0: not at all
	Age    uint8 // of the lock's key: since its expiry was started; only where time is modelled
	Token  Token // the counter; 0: no key
	Memory Memory
	Since  Token // up to where counters may be forgotten: as far as they could be raised when the memory began
	Tombs  uint8 // bit i: owner i+1 has a tombstone
	Aside  bool  // another database has a memory's key that counts when SWAPDB brings it here
}

// Memory is whether a server remembers all that it must.
type Memory uint8

const (
	Whole    Memory = iota
	Lost            // the memory's key is gone, or is from another process, and nobody has noticed
	Waiting         // it was noticed less than the longest TTL ago
	Replaced        // as Lost, but the process wrote the key itself: its data was replaced while it ran
)

// Clock is what a server's clock says to tokens.
type Clock struct {
	Now   Token
	Ahead Token // a minute beyond Now
	Floor Token // what a token must exceed where there is no counter
	Limit Token // to which a counter may be raised: Ahead. A world without time sets Ahead to the least and this to the most that it can be
}

// Answer is what a server says about one lock: the first word of it.
type Answer string

const (
	Gone     Answer = "gone"     // the lock is not the owner's, or not by this token
	Waits    Answer = "waits"    // this server doesn't take part
	Held     Answer = "held"     // somebody else has the lock
	Granted  Answer = "granted"  // the lock is the owner's, but the counter was not raised
	Raised   Answer = "raised"   // it was raised
	Renewed  Answer = "renewed"  // the expiry was restarted
	Released Answer = "released" // nothing of the owner exists, or will
)

// Rules names the conditions of the scripts, so that a test can leave one out and see what breaks.
// None is left out in what is shipped.
type Rules struct {
	AcquireForgetful, RaiseForgetful, RenewForgetful bool // takes part whatever it has forgotten
	Replaced                                         bool // doesn't notice a loss in a process that continues
	Aside                                            bool // leaves the memory's key of another database as it is
	CounterSince                                     bool // what was forgotten doesn't count
	CounterAhead                                     bool // it counts to the clock alone, and not to what a counter could be raised to
	CounterFloor                                     bool // a counter that has expired doesn't count
	AcquireTomb, ReleaseTomb                         bool // no look for a tombstone, no tombstone
	AcquireOwn                                       bool // a repeated request is answered as the first was
	AcquireHeld                                      bool // takes what somebody else holds
	AcquireCompare, RaiseCompare                     bool // the counter is set without a look at it
	Limit                                            bool // the counter is raised as far as a client likes
	AcquireZero                                      bool // the token is noted though the counter wasn't raised
	RaiseOwner, RenewOwner, ReleaseOwner             bool // the key's owner doesn't matter
	RenewToken                                       bool // the key's token doesn't matter
	RenewExists                                      bool // a renewal sets the key if there is none
	PlainCounters                                    bool // the second phase sets counters alone, and keys don't tell their token
}

// Expire ends the lease that exists.
func (n *Node) Expire() { n.Holder, n.Raised, n.Age = 0, 0, 0 }

// forgetful is memory.lua.
func (n *Node) forgetful(out Rules, c Clock) bool {
	if n.Memory == Lost || n.Memory == Replaced && !out.Replaced {
		n.Memory, n.Since = Waiting, c.Ahead
		if out.CounterAhead {
			n.Since = c.Now
		}
		n.Aside = n.Aside && out.Aside
	}
	return n.Memory == Waiting
}

// Notice is a request about another lock.
func (n *Node) Notice(out Rules, c Clock) { n.forgetful(out, c) }

// Swap is SWAPDB: other is what the other database has. A memory's key there counts only if n says
// so.
func (n *Node) Swap(other *Node) {
	if !n.Aside {
		other.Memory = Lost
	}
	n.Aside, other.Aside = false, n.Memory == Whole || n.Memory == Waiting
	*n, *other = *other, *n
}

// Counter is what a token must exceed: the function counter in token.lua.
func (n *Node) Counter(out Rules, c Clock) Token {
	last := n.Token
	if last == 0 && !out.CounterFloor {
		last = c.Floor
	}
	if !out.CounterSince {
		last = max(last, n.Since)
	}
	return last
}

// raise is the function of that name in token.lua.
func (n *Node) raise(out Rules, compare bool, owner Owner, token Token, c Clock) bool {
	if compare && token <= n.Counter(out, c) || token > c.Limit && !out.Limit {
		return false
	}
	n.Token = token
	n.Holder, n.Raised = owner, token
	return true
}

// Acquire is acquire.lua.
func (n *Node) Acquire(out Rules, owner Owner, token Token, c Clock) Answer {
	if !out.AcquireForgetful && n.forgetful(out, c) {
		return Waits
	}
	if n.buried(owner) && !out.AcquireTomb {
		return Gone
	}
	if n.Holder == owner {
		n.Age = 0
		if out.AcquireOwn {
			return Raised
		}
		return Granted
	}
	if n.Holder != 0 && !out.AcquireHeld {
		return Held
	}
	n.Age = 0
	if n.raise(out, !out.AcquireCompare, owner, token, c) {
		return Raised
	}
	n.Holder, n.Raised = owner, 0
	if out.AcquireZero {
		n.Raised = token
	}
	return Granted
}

// Raise is raise.lua.
func (n *Node) Raise(out Rules, owner Owner, token Token, c Clock) Answer {
	if !out.RaiseForgetful && n.forgetful(out, c) {
		return Waits
	}
	if out.PlainCounters {
		if token <= n.Token {
			return Granted
		}
		n.Token = token
		return Raised
	}
	if n.Holder != owner && !out.RaiseOwner {
		return Gone
	}
	if !n.raise(out, !out.RaiseCompare, owner, token, c) {
		return Granted
	}
	return Raised
}

// Renew is renew.lua.
func (n *Node) Renew(out Rules, owner Owner, token Token, c Clock) Answer {
	if !out.RenewForgetful && n.forgetful(out, c) {
		return Waits
	}
	if n.Holder == 0 && out.RenewExists {
		n.Holder, n.Raised = owner, token
	}
	if n.Holder != owner && !out.RenewOwner || n.Raised != token && !out.RenewToken && !out.PlainCounters {
		return Gone
	}
	n.Age = 0
	return Renewed
}

// Release is release.lua.
func (n *Node) Release(out Rules, owner Owner) Answer {
	if n.Holder == owner || out.ReleaseOwner {
		n.Expire()
	} else if !out.ReleaseTomb {
		n.Tombs |= 1 << (owner - 1)
	}
	return Released
}

func (n *Node) buried(owner Owner) bool { return n.Tombs>>(owner-1)&1 == 1 }
