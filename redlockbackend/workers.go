package redlockbackend

import (
	"context"
	"sync"
	"time"

	"github.com/fencedlock/locker/internal/redisconn"
)

// task is what a worker does about one server.
type task interface{ run(server int) }

// taskFunc is a task that isn't about one server.
type taskFunc func()

func (f taskFunc) run(int) { f() }

// workers are the goroutines that wait for servers. Each task has one, and some stay for the next
// tasks: to wake a goroutine costs less than to start one with the stack that go-redis needs.
type workers struct {
	most int // that stay while they are idle

	mu        sync.Mutex
	idle      []*worker   // the one that was busy last is the last
	unused    int         // how many have been idle since the timer was set
	dismissal *time.Timer // calls dismiss; nil: none is idle
	busy      int
	closed    bool
	noneBusy  chan struct{} // closed when none is busy; nil: nobody waits for that
}

type worker struct{ jobs chan job }

type job struct {
	task   task
	server int
}

// workerStays is the least time for which a worker stays that nobody needs.
const workerStays = 5 * time.Second

func newWorkers(most int) *workers { return &workers{most: most} }

// run gives t to a worker. It may be called after close as well.
func (w *workers) run(t task, server int) {
	w.mu.Lock()
	w.busy++
	n := len(w.idle) - 1
	if w.unused = min(w.unused, max(n, 0)); n < 0 {
		w.mu.Unlock()
		go w.work(&worker{make(chan job, 1)}, job{t, server})
		return
	}
	one := w.idle[n]
	w.idle[n], w.idle = nil, w.idle[:n]
	w.mu.Unlock()
	one.jobs <- job{t, server}
}

func (w *workers) work(one *worker, j job) {
	redisconn.GrowStack()
	for {
		j.task.run(j.server)
		j = job{}
		if !w.finished(one) {
			return
		}
		var more bool
		if j, more = <-one.jobs; !more {
			return
		}
	}
}

// finished notes that a worker has done its task. It reports whether the worker stays.
func (w *workers) finished(one *worker) (stays bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.busy--; w.busy == 0 && w.noneBusy != nil {
		close(w.noneBusy)
		w.noneBusy = nil
	}
	if w.closed || len(w.idle) >= w.most {
		return false
	}
	w.idle = append(w.idle, one)
	if w.dismissal == nil {
		w.unused = 0
		w.dismissal = time.AfterFunc(workerStays, w.dismiss)
	}
	return true
}

// dismiss ends the workers that nobody has needed since the timer was set.
func (w *workers) dismiss() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return
	}
	for _, one := range w.idle[:w.unused] {
		close(one.jobs)
	}
	w.idle = append([]*worker(nil), w.idle[w.unused:]...)
	if w.unused = len(w.idle); w.unused == 0 {
		w.dismissal = nil
		return
	}
	w.dismissal.Reset(workerStays)
}

// wait waits until no worker is busy. The error is the cause of the end of ctx.
func (w *workers) wait(ctx context.Context) error {
	w.mu.Lock()
	if w.busy == 0 {
		w.mu.Unlock()
		return nil
	}
	if w.noneBusy == nil {
		w.noneBusy = make(chan struct{})
	}
	noneBusy := w.noneBusy
	w.mu.Unlock()
	select {
	case <-noneBusy:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// close ends the workers, each when it has done what it is doing.
func (w *workers) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	for _, one := range w.idle {
		close(one.jobs)
	}
	w.idle = nil
	if w.dismissal != nil {
		w.dismissal.Stop()
	}
}
