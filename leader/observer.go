package leader

import (
	"sync"
	"time"
)

// Observer gets to know what a candidate does, in order. Its methods are called one at a time on a goroutine
// of their own, so a slow Observer delays no election and no leader. If 1,000 calls wait, further terms are
// left out as a whole. Run and Candidate.Close wait up to a second for the last calls.
type Observer interface {
	// Standing says that the candidate waits to be elected. It is called once before each term.
	Standing()

	// Elected says that a term begins.
	Elected(t Term)

	// Ended says that a term is over: the function that leads has returned. cause is the lease's Err if the
	// lease was lost, and else nil.
	Ended(t Term, cause error)

	// Overstaying says that the function that leads hasn't returned in time after the end of its context;
	// see the option Overstay. Ended may follow.
	Overstaying(t Term)
}

// maxNotices is how many notices may wait when a term begins. They are few for each term, so it is reached only
// by an observer that hangs.
const maxNotices = 1000

// noticesGrace is how long the end of a campaign waits for observers.
const noticesGrace = time.Second

// notices are the calls of observers that haven't been made yet. A goroutine makes them, and exists only
// while there are some.
type notices struct {
	to []Observer

	mu      sync.Mutex
	pending []func(Observer) // the goroutine hasn't taken them
	waiting int              // calls that have not returned
	running bool
	skip    bool          // the notices of this term are left out
	idle    chan struct{} // closed when nothing is pending; nil: nobody waits for that
}

func (n *notices) add(call func(Observer)) { n.put(call, false) }

// begin adds the first notice before a term.
func (n *notices) begin(call func(Observer)) { n.put(call, true) }

func (n *notices) put(call func(Observer), first bool) {
	if len(n.to) == 0 {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if first {
		n.skip = n.waiting >= maxNotices
	}
	if n.skip {
		return
	}
	n.pending = append(n.pending, call)
	n.waiting++
	if !n.running {
		n.running = true
		go n.deliver()
	}
}

func (n *notices) deliver() {
	for {
		n.mu.Lock()
		calls := n.pending
		n.pending = nil
		if len(calls) == 0 {
			n.running = false
			if n.idle != nil {
				close(n.idle)
				n.idle = nil
			}
			n.mu.Unlock()
			return
		}
		n.mu.Unlock()
		for _, call := range calls {
			for _, o := range n.to {
				call(o)
			}
			n.mu.Lock()
			n.waiting--
			n.mu.Unlock()
		}
	}
}

// wait waits until all calls have been made, for a limited time.
func (n *notices) wait() {
	n.mu.Lock()
	if !n.running {
		n.mu.Unlock()
		return
	}
	if n.idle == nil {
		n.idle = make(chan struct{})
	}
	idle := n.idle
	n.mu.Unlock()
	timer := time.NewTimer(noticesGrace)
	defer timer.Stop()
	select {
	case <-idle:
	case <-timer.C:
	}
}
