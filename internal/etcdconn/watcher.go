package etcdconn

import (
	"sync"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/fencedlock/locker/driver/kit"
)

// Watcher has all watches of its user on one stream, and reports deletes, and puts to those that want
// them. The stream goes to the member that answers other requests. When it breaks, or that member is left, it begins again
// at another member.
//
// Two goroutines run from the first Add until Close.
type Watcher struct {
	cluster   *Cluster
	confirmed func()

	mu      *sync.Mutex
	watches map[int64]*Watch
	lastID  int64
	stream  *watchStream // nil: there is none
	wanted  kit.Signal   // there is something to watch
	started bool
	closed  bool
	closing chan struct{}
	ended   sync.WaitGroup
}

// Watch watches the keys [key, end), or key alone if end is "".
type Watch struct {
	id       int64
	key, end string
	subject  Subject
	up       bool // the server has confirmed it, and the stream exists
	begun    bool // a server has confirmed it before
}

// Key is the first key that is watched.
func (w *Watch) Key() string { return w.key }

// Up reports whether deletes are reported now.
func (w *Watch) Up() bool { return w.up }

// Subject is what a Watch reports to. Its methods are called under the mutex of the Watcher.
type Subject interface {
	// Since is the revision after which deletes must be reported; 0: from now on. After the first
	// call of Begun it is 0: older deletes may be compacted away, or cost etcd too much.
	Since() int64
	// Begun is called when the server confirms the watch, and again after each new stream. From
	// Since, or from now on, all deletes are reported until the stream breaks.
	Begun()
	// Deleted reports that a key was deleted, and at which revision.
	Deleted(key string, revision int64)
}

// PutSubject is a Subject to which puts are reported as well, as deletes are: in the order of their
// revisions, and from the same one on.
type PutSubject interface {
	Subject
	// Put reports that a key was put, with its create revision and its value.
	Put(key string, created int64, value []byte)
}

// NewWatcher makes a Watcher without watches. mu is held by callers of Add and Remove, and while
// confirmed and the methods of a Subject are called, so that mu can guard their state as well.
//
// confirmed is called when no watch is left that has begun before and that the server has not confirmed
// again. New ones don't count: they miss nothing. A Cluster has one Watcher at most.
func (c *Cluster) NewWatcher(mu *sync.Mutex, confirmed func()) *Watcher {
	w := &Watcher{
		cluster:   c,
		confirmed: confirmed,
		mu:        mu,
		watches:   make(map[int64]*Watch),
		wanted:    kit.NewSignal(),
		closing:   make(chan struct{}),
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.watcher = w
	return w
}

// Add begins a watch.
func (w *Watcher) Add(key, end string, subject Subject) *Watch {
	w.lastID++
	one := &Watch{id: w.lastID, key: key, end: end, subject: subject}
	w.watches[one.id] = one
	if s := w.stream; s != nil && s.open {
		w.create(s, one)
	}
	w.wanted.Set()
	if !w.started && !w.closed {
		w.started = true
		w.ended.Add(1)
		go w.run()
	}
	return one
}

// Remove ends a watch.
func (w *Watcher) Remove(one *Watch) {
	delete(w.watches, one.id)
	if s := w.stream; s != nil && s.open {
		if !one.up {
			w.settled(s, one)
		}
		s.send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CancelRequest{CancelRequest: &pb.WatchCancelRequest{WatchId: one.id}}})
	}
}

// confirmLimit is how long a member may take to open a stream, and to confirm a watch.
const confirmLimit = MaxAttempt

// create asks the server for a watch.
func (w *Watcher) create(s *watchStream, one *Watch) {
	one.up = false
	var from int64
	if since := one.subject.Since(); since > 0 {
		from = since + 1
	}
	r := &pb.WatchCreateRequest{Key: []byte(one.key), RangeEnd: []byte(one.end), StartRevision: from, WatchId: one.id}
	if _, puts := one.subject.(PutSubject); !puts {
		r.Filters = []pb.WatchCreateRequest_FilterType{pb.WatchCreateRequest_NOPUT}
	}
	s.send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: r}})
	if one.begun {
		s.again++
	}
	if s.unconfirmed++; s.unconfirmed == 1 {
		s.overdue.Reset(confirmLimit)
	}
}

// settled takes in that a watch was confirmed, or is not needed any more.
func (w *Watcher) settled(s *watchStream, one *Watch) {
	if s.unconfirmed--; s.unconfirmed > 0 {
		s.overdue.Reset(confirmLimit)
	} else {
		s.overdue.Stop()
	}
	if !one.begun {
		return
	}
	if s.again--; s.again == 0 {
		w.confirmed()
	}
}

// leave ends the stream if it goes to m.
func (w *Watcher) leave(m *member) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stream != nil && w.stream.at == m {
		w.stream.cancel()
	}
}

// Close ends the stream, and waits for the goroutines. The caller doesn't hold the mutex.
func (w *Watcher) Close() {
	w.mu.Lock()
	if !w.closed {
		w.closed = true
		close(w.closing)
	}
	if w.stream != nil {
		w.stream.cancel()
	}
	w.mu.Unlock()
	w.ended.Wait()
}
