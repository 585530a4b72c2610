package etcdbackend

import (
	"context"
	"sync"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// watches is all that a Locker watches, over one stream: the names for which it waits, and the keys that it holds. Only
// deletes are told. The client's own watcher would cost a goroutine and a channel for each watch, and begins again by
// itself at an older revision, which etcd serves every 100 ms only: the reason why hand-offs by it are slow.
//
// A watch of a name begins now, whenever it begins; what was before is read after that. The stream goes to the member
// that answers other requests, and when it breaks, or that member is left, begins anew on another.
//
// Two goroutines, from the first watch until close.
type watches struct {
	server *server
	life   context.Context // of the stream

	mu      sync.Mutex
	all     map[int64]*watch
	last    int64 // the latest id
	names   map[string]*nameWatch
	far     map[*lock]*farWatch
	held    held
	stream  *watchStream  // nil: none stands
	wanted  chan struct{} // there is something to watch; buffered
	started bool
	closed  bool
	closing chan struct{}
	ended   sync.WaitGroup
}

// watch is one watch, whose keys are [key, end), or key alone.
type watch struct {
	id       int64
	key, end string
	subject  subject
	up       bool // the server has confirmed it, and the stream stands
}

// subject is what a watch is about. Its methods are called under the mutex of watches.
type subject interface {
	// since is the revision after which deletes are to be told; 0: from now on. After begun, it is 0: what was before may
	// be compacted away, or so long ago that it costs etcd too much.
	since() int64
	// begun says that from now on, or from then on, all deletes are told, until the stream breaks; then it is said again.
	begun()
	// deleted says that a key was deleted, and at which revision.
	deleted(key string, revision int64)
}

// newWatches makes the watches of a Locker. confirm is called with locks whose keys may have been deleted unnoticed.
func newWatches(life context.Context, s *server, confirm func([]*lock)) *watches {
	return &watches{
		server:  s,
		life:    life,
		held:    held{doubt: confirm},
		all:     make(map[int64]*watch),
		names:   make(map[string]*nameWatch),
		far:     make(map[*lock]*farWatch),
		wanted:  make(chan struct{}, 1),
		closing: make(chan struct{}),
	}
}

// add begins a watch.
func (w *watches) add(key, end string, subject subject) *watch {
	w.last++
	one := &watch{id: w.last, key: key, end: end, subject: subject}
	w.all[one.id] = one
	if s := w.stream; s != nil && s.open {
		w.create(s, one)
	}
	select {
	case w.wanted <- struct{}{}:
	default:
	}
	if !w.started && !w.closed {
		w.started = true
		w.ended.Add(1)
		go w.run()
	}
	return one
}

func (w *watches) remove(one *watch) {
	delete(w.all, one.id)
	if s := w.stream; s != nil && s.open {
		if !one.up {
			w.confirmed(s)
		}
		s.send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CancelRequest{CancelRequest: &pb.WatchCancelRequest{WatchId: one.id}}})
	}
}

// confirmLimit is how long a member may take to confirm a watch.
const confirmLimit = maxAttempt

func (w *watches) create(s *watchStream, one *watch) {
	one.up = false
	var from int64
	if since := one.subject.since(); since > 0 {
		from = since + 1
	}
	s.send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: &pb.WatchCreateRequest{
		Key:           []byte(one.key),
		RangeEnd:      []byte(one.end),
		StartRevision: from,
		WatchId:       one.id,
		Filters:       []pb.WatchCreateRequest_FilterType{pb.WatchCreateRequest_NOPUT},
	}}})
	if s.pending++; s.pending == 1 {
		s.overdue.Reset(confirmLimit)
	}
}

// confirmed takes in that one watch less is to be confirmed: it was, or is not needed any more.
func (w *watches) confirmed(s *watchStream) {
	if s.pending--; s.pending > 0 {
		s.overdue.Reset(confirmLimit)
		return
	}
	s.overdue.Stop()
	w.held.confirm()
}

// leave ends the stream if it goes to a member that doesn't answer.
func (w *watches) leave(m *member) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stream != nil && w.stream.at == m {
		w.stream.cancel()
	}
}

func (w *watches) close() {
	w.mu.Lock()
	if !w.closed {
		w.closed = true
		close(w.closing)
		w.held.stop()
		for _, n := range w.names {
			n.idle.Stop()
		}
	}
	if w.stream != nil {
		w.stream.cancel()
	}
	w.mu.Unlock()
	w.ended.Wait()
}
