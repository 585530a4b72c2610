package leader

import (
	"sync"
	"time"
)

// Observer gets to know what a candidate does, in order. Its methods are called one at a time on a goroutine
// of their own, so a slow Observer delays no election, no leader and no other Observer. If 1,000 calls wait,
// further terms are left out as a whole. Run and Candidate.Close wait up to a second for the last calls.
type Observer interface {
	// Standing says that the candidate waits to be elected. It is called once before each term.
	Standing()

	// Elected says that a term begins.
	Elected(t Term)

	// Ended says that a term is over: the function that leads has returned. cause is the lease's Err if the
	// lease was lost, and else nil.
	Ended(t Term, cause error)

	// Overstaying says that the function that leads hasn't returned in time after the end of its context;
	// see the option Overstay. Ended may follow it, and never precedes it.
	Overstaying(t Term)
}

// maxNotices is how many calls of an observer may wait when a term begins. They are few for each term, so it is
// reached only by an observer that hangs.
const maxNotices = 1000

// noticesGrace is how long the end of a campaign waits for observers.
const noticesGrace = time.Second

// notices are the calls of observers that haven't been made yet. Each observer has a queue of its own, so that
// none waits for another one.
type notices []*noticeQueue

func newNotices(observers []Observer) notices {
	var all notices
	for _, o := range observers {
		all = append(all, &noticeQueue{to: o})
	}
	return all
}

func (n notices) add(call func(Observer)) {
	for _, q := range n {
		q.put(call, false)
	}
}

// begin adds the first notice before a term.
func (n notices) begin(call func(Observer)) {
	for _, q := range n {
		q.put(call, true)
	}
}

// wait waits until all calls have been made, for a limited time.
func (n notices) wait() {
	timer := time.NewTimer(noticesGrace)
	defer timer.Stop()
	for _, q := range n {
		select {
		case <-q.whenIdle():
		case <-timer.C:
			return
		}
	}
}

// noticeQueue has the calls of one observer. A goroutine makes them, and exists only while there are some.
type noticeQueue struct {
	to Observer

	mu      sync.Mutex
	pending []func(Observer)
	skip    bool          // the notices of this term are left out
	idle    chan struct{} // closed when the last call has returned; nil: none is under way
}

func (q *noticeQueue) put(call func(Observer), first bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if first {
		q.skip = len(q.pending) >= maxNotices
	}
	if q.skip {
		return
	}
	q.pending = append(q.pending, call)
	if q.idle == nil {
		q.idle = make(chan struct{})
		go q.deliver()
	}
}

// deliver makes the calls until none is left. When an observer ends the goroutine (runtime.Goexit, as a test's
// FailNow does), another one goes on.
func (q *noticeQueue) deliver() {
	ended := false
	defer func() {
		if !ended {
			go q.deliver()
		}
	}()
	for call := q.next(); call != nil; call = q.next() {
		call(q.to)
	}
	ended = true
}

// next takes the next call. It is nil when there is none, and the delivery ends.
func (q *noticeQueue) next() (call func(Observer)) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.pending) == 0 {
		q.pending = nil
		close(q.idle)
		q.idle = nil
		return nil
	}
	call, q.pending[0] = q.pending[0], nil
	q.pending = q.pending[1:]
	return call
}

// whenIdle returns a channel that is closed when no call is under way or waits.
func (q *noticeQueue) whenIdle() <-chan struct{} {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.idle == nil {
		idle := make(chan struct{})
		close(idle)
		return idle
	}
	return q.idle
}
