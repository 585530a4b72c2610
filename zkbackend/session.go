package zkbackend

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/internal/zkconn"
)

// session is one session with the servers, for all acquisitions with one TTL. It has a zk.Conn of its own, which never
// gets a second session: when the servers have ended this one, dial refuses to connect again. So what go-zookeeper had
// queued then is never sent, though by itself it would send it under a new session, where the node that it makes would
// be nobody's.
//
// It has one goroutine, run, until it is over; then another one, shut, ends all that belongs to it. The driver's Close waits for that.
type session struct {
	d        *zkDriver
	ttl      time.Duration
	timeout  time.Duration // asked of the servers
	patience time.Duration
	hosts    *zkconn.Hosts

	conn  *zk.Conn
	quiet <-chan zk.Event // closed when conn's goroutines have ended
	idle  chan struct{}   // closed when run has returned
	ended chan struct{}   // closed when that and all else has

	life context.Context         // until the session is over, with the cause
	end  context.CancelCauseFunc // also called again, and with mu held

	users int // acquisitions that have not been removed; guarded by the driver's mutex

	mu       sync.Mutex
	wire     *zkconn.Wire  // the present connection, or the last one
	up       chan struct{} // closed while requests can be sent
	isUp     bool
	trouble  error // what came last in the way of a connection
	retired  error // why no new acquisitions come here any more
	proof    *proof
	heard    driver.Instant // when the newest request was sent that was answered: not those to connect again
	written  driver.Instant // when the newest write was sent that was answered
	unsure   driver.Instant // when a write was sent whose answer is lost, while none is answered that was sent later; else Never
	silence  *time.Timer    // calls listen; nil until the session was confirmed
	id       int64          // it and the password attach a connection to the session
	password [zkconn.PasswordSize]byte
	nodes    map[string]*lock  // those that stand under this session, by path
	fresh    []*lock           // those of them that are not watched yet
	watched  map[string]*watch // nodes whose end is waited for
}

var (
	errExpired  = errors.New("the servers have ended the session")
	errOver     = errors.New("the session is over")
	errNoServer = errors.New("no connection with a server")
	errRemoved  = errors.New("its node was deleted")
	errRefused  = errors.New("a server refuses the credentials")
)

// patienceFor is how long a server may take: so short that another one can still renew a lease that this one doesn't,
// and not so short that a slow disk looks like a dead server.
func patienceFor(ttl time.Duration) time.Duration {
	return min(max(ttl/6, 250*time.Millisecond), 2*time.Second)
}

func newSession(d *zkDriver, ttl time.Duration) *session {
	s := &session{
		d:        d,
		ttl:      ttl,
		timeout:  d.margins.timeout(ttl),
		patience: patienceFor(ttl),
		idle:     make(chan struct{}),
		ended:    make(chan struct{}),
		up:       make(chan struct{}),
		nodes:    make(map[string]*lock),
		watched:  make(map[string]*watch),
		unsure:   driver.Never,
	}
	s.life, s.end = context.WithCancelCause(context.Background())
	s.hosts = &zkconn.Hosts{Over: s.isOver}
	return s
}

func (s *session) isOver() bool { return s.life.Err() != nil }

// whyOver is nil until the session is over.
func (s *session) whyOver() error { return context.Cause(s.life) }

// event is called in go-zookeeper's goroutines, in order. (Its channel of events has room for six and drops what comes
// then.)
func (s *session) event(e zk.Event) {
	switch {
	case e.Type == zk.EventNodeDeleted:
		s.deleted(e.Path)
	case e.Type == zk.EventNodeDataChanged:
		s.changed(e.Path)
	case e.Type != zk.EventSession:
	case e.State == zk.StateHasSession:
		s.connected()
	case e.State == zk.StateDisconnected:
		s.disconnected()
	case e.State == zk.StateExpired:
		s.expired()
	}
}

// connected is called when a server has confirmed the session, for the first time or again.
func (s *session) connected() {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.wire.Greeted()
	granted := time.Duration(h.Timeout) * time.Millisecond
	first := s.proof == nil
	if first {
		s.proof = newProof(s.d.margins, s.ttl, h.Sent)
		s.heard, s.written, s.id, s.password = h.Sent, h.Sent, h.Session, h.Password
		s.silence = time.AfterFunc(s.timeout, s.listen)
	}
	s.proof.connected(h.Sent, h.Answered)
	s.trouble = nil
	if granted < s.timeout {
		err := &shortError{granted}
		if first {
			s.end(err)
			return
		}
		s.retire(err) // and what was proved for the timeout of before is not true for this one
	}
	s.watchAnew()
	if !s.isUp {
		s.isUp = true
		close(s.up)
	}
}

// watchAnew is called after a connect, by which all watches have ended.
func (s *session) watchAnew() {
	for path, w := range s.watched {
		close(w.over) // who waits looks again
		delete(s.watched, path)
	}
	s.fresh = s.fresh[:0]
	for _, l := range s.nodes {
		s.fresh = append(s.fresh, l)
	}
}

func (s *session) disconnected() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.wire != nil {
		if err := s.wire.Unanswered(); errors.Is(err, zkconn.ErrHungUp) && s.proof != nil {
			s.trouble = fmt.Errorf("%w, or it knows less than this client has seen (was its data lost, or restored?)", err)
		} else if err != nil {
			s.trouble = err
		}
		if s.wire.WasRefused() { // each further connect would keep the session, and its nodes, alive
			s.retire(errRefused)
			s.end(errRefused)
		}
	}
	if s.isUp {
		s.isUp = false
		s.up = make(chan struct{})
	}
}

// expired is called when the servers say that the session has ended: nothing of it stands.
func (s *session) expired() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.retire(errExpired) // first, so that a waiter which sees the end has been told of its loss
	s.end(errExpired)
}

// retire leaves the session to those who still have to remove something from it.
func (s *session) retire(cause error) {
	if s.retired == nil {
		s.retired = cause
	}
	for _, l := range s.nodes {
		l.tellLost(fmt.Errorf("%w: %w", locker.ErrLost, cause))
	}
}

// usable reports whether new acquisitions may come.
func (s *session) usable() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.retired == nil && !s.isOver()
}

// ready waits until requests can be sent. ctx is a time limit; its end is the service's failure.
func (s *session) ready(ctx context.Context) error {
	s.mu.Lock()
	up := s.up
	s.mu.Unlock()
	select {
	case <-s.life.Done():
	case <-ctx.Done():
	default:
		select {
		case <-up:
			return nil
		case <-s.life.Done():
		case <-ctx.Done():
		}
	}
	if s.isOver() {
		return fmt.Errorf("%w: %w", errOver, s.whyOver())
	}
	return s.unanswered()
}

// unanswered is the error of what was not answered in time. Without a connection it is errNoServer, with what is known about that.
func (s *session) unanswered() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.isUp:
		return fmt.Errorf("%w from %s", zkconn.ErrNoAnswer, s.wire.Addr)
	case s.trouble == nil:
		return errNoServer
	}
	return fmt.Errorf("%w: %w", errNoServer, s.trouble)
}

// stand notes a node of l.
func (s *session) stand(l *lock, path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.nodes[path] = l
	s.fresh = append(s.fresh, l)
	if s.retired != nil {
		l.tellLost(fmt.Errorf("%w: %w", locker.ErrLost, s.retired))
	}
}

// fall notes that a node of ours doesn't stand any more.
func (s *session) fall(path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.nodes, path)
}

// stands reports whether a node of ours is not known to have gone.
func (s *session) stands(path string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.nodes[path] != nil
}
