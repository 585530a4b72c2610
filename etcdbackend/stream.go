package etcdbackend

import (
	"context"
	"errors"
	"fmt"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// watchStream is the stream to one member. What is to be sent is queued, so that nobody waits for a member that hangs.
type watchStream struct {
	at      *member
	cancel  context.CancelFunc
	queue   []*pb.WatchRequest
	queued  chan struct{} // buffered
	open    bool          // watches are created on it; until then overdue is the time limit of its opening
	pending int           // watches that the server has not confirmed
	overdue *time.Timer   // while there are some
}

func (s *watchStream) send(r *pb.WatchRequest) {
	s.queue = append(s.queue, r)
	select {
	case s.queued <- struct{}{}:
	default:
	}
}

const (
	firstBreak = 10 * time.Millisecond
	maxBreak   = time.Second
)

// run keeps a stream until close. One that breaks while there is nothing to watch is not missed.
//
//nolint:contextcheck
func (w *watches) run() {
	defer w.ended.Done()
	for wait := firstBreak; ; wait = min(2*wait, maxBreak) {
		for w.idle() {
			select {
			case <-w.wanted:
			case <-w.closing:
				return
			}
		}
		began := time.Now()
		if m, err := w.server.best(); err == nil {
			if err := w.serve(m); !errors.Is(err, errWatchRefused) {
				w.server.leave(m)
			}
		}
		if time.Since(began) > maxBreak {
			wait = firstBreak
		}
		select {
		case <-time.After(wait):
		case <-w.closing:
			return
		}
	}
}

func (w *watches) idle() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.all) == 0 && !w.closed
}

var (
	errWatchRefused = errors.New("the watch is refused")
	errNotUsed      = errors.New("the member was left, or the locker closed")
)

// serve watches at one member until the stream breaks.
//
//nolint:contextcheck
func (w *watches) serve(m *member) error {
	c := &call{}
	ctx, cancel := context.WithCancel(context.WithValue(clientv3.WithRequireLeader(w.life), callKey{}, c))
	defer cancel()
	s := &watchStream{at: m, cancel: cancel, queued: make(chan struct{}, 1)}
	s.overdue = time.AfterFunc(confirmLimit, cancel) // for the opening, at first
	defer s.overdue.Stop()
	if !w.use(s) {
		return errNotUsed
	}
	defer w.broke()
	if err := m.connected(ctx); err != nil {
		return err
	}
	m.nudge()
	stream, err := openStream(ctx, confirmLimit/(openings+1), func(ctx context.Context) (pb.Watch_WatchClient, error) {
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
		if err := w.heard(s, resp); err != nil {
			return err
		}
	}
}

// use makes s the stream that leave and close end. It is false when that has happened: also to its
// member, since run has asked for the best one.
func (w *watches) use(s *watchStream) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed || !w.server.isGood(s.at) {
		return false
	}
	w.stream = s
	return true
}

func (w *watches) broke() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stream = nil
	for _, one := range w.all {
		one.up = false
	}
}

// begin creates all watches on a new stream.
func (w *watches) begin(s *watchStream) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s.overdue.Stop()
	s.open = true
	for _, one := range w.all {
		w.create(s, one)
	}
}

// write sends what is queued.
func (w *watches) write(ctx context.Context, s *watchStream, stream pb.Watch_WatchClient) {
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

// heard takes in a response.
func (w *watches) heard(s *watchStream, resp *pb.WatchResponse) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	one := w.all[resp.WatchId]
	switch {
	case resp.Created && resp.Canceled: // it doesn't say which; the token may have expired, and a new stream gets a new one
		if err := w.server.ours(s.at, resp.Header); err != nil {
			return err
		}
		return fmt.Errorf("%w: %s", errWatchRefused, resp.CancelReason)
	case resp.Created && (resp.WatchId < 1 || resp.WatchId > w.last): // etcd grpc-proxy gives ids of its own
		return s.at.refuse(errProxy)
	}
	if err := w.server.ours(s.at, resp.Header); err != nil {
		return err
	}
	switch {
	case one == nil: // it was removed meanwhile
		return nil
	case resp.Canceled: // what it had to tell was compacted away
		if !one.up {
			w.begun(s, one) // had it begun, it would now have ended
			if w.all[one.id] != one {
				return nil
			}
		}
		delete(w.all, one.id)
		w.last++
		one.id = w.last
		w.all[one.id] = one
		w.create(s, one)
		return nil
	case resp.Created:
		w.begun(s, one)
	}
	for _, e := range resp.Events {
		if e.Type == mvccpb.DELETE {
			one.subject.deleted(string(e.Kv.Key), e.Kv.ModRevision)
		}
	}
	return nil
}

// begun takes in that the server has confirmed a watch. The subject may remove it at once, which is then no confirmation more.
func (w *watches) begun(s *watchStream, one *watch) {
	one.up = true
	one.subject.begun()
	w.confirmed(s)
}
