package etcdconn

import (
	"context"
	"errors"
	"fmt"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/fencedlock/locker/driver/kit"
)

// watchStream is the stream to one member. What must be sent is queued, so that no caller waits for
// a member that doesn't read.
type watchStream struct {
	at          *member
	cancel      context.CancelFunc
	queue       []*pb.WatchRequest
	queued      kit.Signal
	open        bool        // watches are created on it; until then overdue limits its opening
	unconfirmed int         // watches that the server has not confirmed
	again       int         // of these, the ones that have begun before
	overdue     *time.Timer // runs while there are some
}

func (s *watchStream) send(r *pb.WatchRequest) {
	s.queue = append(s.queue, r)
	s.queued.Set()
}

// A pause comes before each new stream, twice as long as the last one.
const (
	firstStreamPause   = 10 * time.Millisecond
	longestStreamPause = time.Second
)

// run keeps a stream until Close. A stream that breaks while there is nothing to watch is replaced
// when there is something.
//
//nolint:contextcheck
func (w *Watcher) run() {
	defer w.ended.Done()
	for pause := firstStreamPause; ; pause = min(2*pause, longestStreamPause) {
		for w.idle() {
			select {
			case <-w.wanted:
			case <-w.closing:
				return
			}
		}
		began := time.Now()
		if m, err := w.cluster.firstMember(); err == nil {
			if err := w.serve(m); !errors.Is(err, errWatchRefused) && !w.isClosed() {
				w.cluster.leave(m)
			}
		}
		if time.Since(began) > longestStreamPause {
			pause = firstStreamPause
		}
		select {
		case <-time.After(pause):
		case <-w.closing:
			return
		}
	}
}

// isClosed reports whether Close was called. Then the end of the stream says nothing about the member.
func (w *Watcher) isClosed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.closed
}

func (w *Watcher) idle() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.watches) == 0 && !w.closed
}

var (
	errWatchRefused = errors.New("the watch is refused")
	errNotUsed      = errors.New("the member was left, or the watcher was closed")
)

// serve watches at one member until the stream breaks.
//
//nolint:contextcheck
func (w *Watcher) serve(m *member) error {
	c := &call{}
	ctx, cancel := context.WithCancel(c.context(w.cluster.tasks.Context()))
	defer cancel()
	s := &watchStream{at: m, cancel: cancel, queued: kit.NewSignal()}
	s.overdue = time.AfterFunc(confirmLimit, cancel) // for the opening, at first
	defer s.overdue.Stop()
	if !w.use(s) {
		return errNotUsed
	}
	defer w.broke()
	if err := m.connected(ctx); err != nil {
		return err
	}
	m.redial()
	stream, err := openStream(ctx, confirmLimit, func(ctx context.Context) (pb.Watch_WatchClient, error) {
		return m.watch.Watch(ctx, options(ctx)...)
	})
	if rejected(err) && !c.sent() { // the login was refused, and that may go to another address
		return fmt.Errorf("%w: %w", errWatchRefused, err)
	}
	if err != nil {
		return err
	}
	w.begin(s)
	w.ended.Add(1)
	go func() {
		defer w.ended.Done()
		w.write(ctx, s, stream)
	}()
	for {
		resp, err := stream.Recv()
		if err != nil {
			return err
		}
		if err := w.receive(s, resp); err != nil {
			return err
		}
	}
}

// use makes s the stream that leave and Close end. It is false when the Watcher is closed, or the
// member was left, also since run has asked for it.
func (w *Watcher) use(s *watchStream) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed || !w.cluster.isFirst(s.at) {
		return false
	}
	w.stream = s
	return true
}

func (w *Watcher) broke() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stream = nil
	for _, one := range w.watches {
		one.up = false
	}
}

// begin creates all watches on a new stream.
func (w *Watcher) begin(s *watchStream) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s.overdue.Stop()
	s.open = true
	for _, one := range w.watches {
		w.create(s, one)
	}
}

// write sends what is queued.
func (w *Watcher) write(ctx context.Context, s *watchStream, stream pb.Watch_WatchClient) {
	for {
		select {
		case <-s.queued:
		case <-ctx.Done():
			return
		}
		w.mu.Lock()
		queue := s.queue
		s.queue = nil
		w.mu.Unlock()
		for _, r := range queue {
			if stream.Send(r) != nil {
				return // Recv has the reason
			}
		}
	}
}

// receive takes in a response. All events of one revision are in one response.
func (w *Watcher) receive(s *watchStream, resp *pb.WatchResponse) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	one := w.watches[resp.WatchId]
	switch {
	case resp.Created && resp.Canceled: // it doesn't say which; if the login has expired, a new stream logs in again
		if err := w.cluster.verify(s.at, resp.Header); err != nil {
			return err
		}
		return fmt.Errorf("%w: %s", errWatchRefused, resp.CancelReason)
	case resp.Created && (resp.WatchId < 1 || resp.WatchId > w.lastID): // etcd grpc-proxy gives ids of its own
		return s.at.refuse(errProxy)
	}
	if err := w.cluster.verify(s.at, resp.Header); err != nil {
		return err
	}
	switch {
	case one == nil: // it was removed meanwhile
		return nil
	case resp.Canceled: // what it had to report was compacted away
		w.restart(s, one)
		return nil
	case resp.Created:
		w.begun(s, one)
	}
	for _, e := range resp.Events {
		if e.Type == mvccpb.DELETE {
			one.subject.Deleted(string(e.Kv.Key), e.Kv.ModRevision)
		} else if puts, ok := one.subject.(PutSubject); ok {
			puts.Put(string(e.Kv.Key), e.Kv.CreateRevision, e.Kv.Value)
		}
	}
	return nil
}

// restart creates a watch again that the server has ended, with a new id.
func (w *Watcher) restart(s *watchStream, one *Watch) {
	if !one.up {
		w.begun(s, one) // report it as begun, because it is about to end
		if w.watches[one.id] != one {
			return
		}
	}
	delete(w.watches, one.id)
	w.lastID++
	one.id = w.lastID
	w.watches[one.id] = one
	w.create(s, one)
}

// begun records that the server has confirmed a watch. The subject may remove the watch at once:
// that doesn't count as another confirmation.
func (w *Watcher) begun(s *watchStream, one *Watch) {
	one.up = true
	one.subject.Begun()
	w.settled(s, one)
	one.begun = true
}
