package leader

import (
	"context"
	"sync"
	"time"
)

// Observer gets to know what a candidate does, for logs and metrics. [WithObserver] attaches it.
type Observer interface {
	// Observe is called for each event, one at a time and in order, on a goroutine of its own. So a
	// slow Observer delays no election, no leader and no other Observer. Run and Candidate.Close wait
	// up to a second for the last calls.
	//
	// Events wait while an Observer is late. If 1,000 events wait when the candidate stands for a
	// term, the events of that term are left out as a whole. Of acquisitions that fail in a row only
	// the latest failure waits, in place of the ones before it. So a service that is down for a day
	// leaves out no terms.
	//
	// ctx has the values of Run's context. With a [Candidate] it has none. It never ends.
	Observe(ctx context.Context, e Event)
}

// maxNotices is how many events may wait for an observer when a candidate stands for a term. They are
// few for each term, so it is reached only by an observer that hangs.
const maxNotices = 1000

// noticesGrace is how long the end of a campaign waits for observers.
const noticesGrace = time.Second

// notices are the events that observers haven't seen yet. Each observer has a queue of its own, so
// that none waits for another one.
type notices []*noticeQueue

// newNotices gives the observers the values of ctx.
func newNotices(ctx context.Context, observers []Observer) notices {
	var all notices
	for _, o := range observers {
		all = append(all, &noticeQueue{to: o, ctx: context.WithoutCancel(ctx)})
	}
	return all
}

func (n notices) add(e Event) {
	for _, q := range n {
		q.put(e)
	}
}

// wait waits until the observers have seen all events, for a limited time.
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

// noticeQueue has the events of one observer. A goroutine delivers them, and exists only while there
// are some.
type noticeQueue struct {
	to  Observer
	ctx context.Context //nolint:containedctx // the observer's

	mu      sync.Mutex
	pending []Event
	skip    bool          // the events of this term are left out
	idle    chan struct{} // closed when the last call has returned; nil: none is under way
}

func (q *noticeQueue) put(e Event) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if e.Kind == EventStanding { // the first event of a term
		q.skip = len(q.pending) >= maxNotices
	}
	if q.skip {
		return
	}
	if last := len(q.pending) - 1; last >= 0 && e.Kind == EventAcquisitionFailed && q.pending[last].Kind == e.Kind {
		q.pending[last] = e // failures have no end while the service is down
		return
	}
	q.pending = append(q.pending, e)
	if q.idle == nil {
		q.idle = make(chan struct{})
		go q.deliver()
	}
}

// deliver calls the observer until no event is left. When an observer ends the goroutine (runtime.Goexit, as a test's
// FailNow does), another one goes on.
func (q *noticeQueue) deliver() {
	ended := false
	defer func() {
		if !ended {
			go q.deliver()
		}
	}()
	for e, ok := q.next(); ok; e, ok = q.next() {
		q.to.Observe(q.ctx, e)
	}
	ended = true
}

// next takes the next event. ok is false when there is none, and the delivery ends.
func (q *noticeQueue) next() (e Event, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.pending) == 0 {
		q.pending = nil
		close(q.idle)
		q.idle = nil
		return Event{}, false
	}
	e, q.pending[0] = q.pending[0], Event{} // so that nothing of it is kept
	q.pending = q.pending[1:]
	return e, true
}

// whenIdle returns a channel that is closed when no call is under way, and no event waits.
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
