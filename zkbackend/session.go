package zkbackend

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/driver/kit"
	"github.com/fencedlock/locker/internal/zkconn"
)

// session is one session with the servers, for all acquisitions with one TTL. It keeps what was
// proved of the session's life, and which nodes belong to it.
//
// Mutexes are taken in this order: a lock's, the mutex of kit.Sessions, a session's. A session's
// may be held while the engine is notified (notifyLost), and not during a request.
type session struct {
	conn    *zkconn.Session
	ttl     time.Duration
	margins margins
	chroot  *chroot

	catchUps *catchUps
	farewell kit.Flight[struct{}] // asks the servers to end the session, when it is over here

	mu        sync.Mutex
	proof     *proof            // nil until the session was confirmed
	retired   error             // why no new acquisitions use this session any more
	nodes     map[string]*lock  // the locks of this session, by path
	created   []*lock           // own nodes that are watched from the next heartbeat on
	unwatched []*lock           // own nodes that are watched as soon as possible
	changed   []*lock           // own nodes that are read before these, because somebody has written to them
	watched   map[string]*watch // nodes whose end is waited for
}

// newSession prepares a session for leases with a TTL. Open its conn.
func newSession(ensemble *zkconn.Ensemble, root *chroot, m margins, ttl time.Duration) *session {
	s := &session{
		ttl:     ttl,
		margins: m,
		chroot:  root,
		nodes:   make(map[string]*lock),
		watched: make(map[string]*watch),
	}
	s.catchUps = newCatchUps(s)
	s.conn = ensemble.New(zkconn.Config{
		Timeout:       m.timeout(ttl),
		AnswerTimeout: answerTimeout(ttl),
		HoldAfter:     m.holdAfter(),
		Interval:      min(m.readInterval(), longestHeartbeat),
		Events:        s,
	})
	return s
}

// longestHeartbeat is the longest pause between heartbeats, whatever the tick is: so a holder's node is
// watched within a second of the grant.
const longestHeartbeat = 750 * time.Millisecond

// answerTimeout is how long a server may take to answer: so short that another server can still
// renew a lease, and not so short that a slow disk looks like a dead server.
func answerTimeout(ttl time.Duration) time.Duration {
	return min(max(ttl/6, 250*time.Millisecond), 2*time.Second)
}

// Connected implements zkconn.Events.
func (s *session) Connected(c zkconn.Confirmation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proof == nil {
		s.proof = newProof(s.margins, s.ttl, c.Sent)
	}
	s.proof.connected(c.Sent, c.Answered)
	if c.Granted < s.margins.timeout(s.ttl) { // what was proved for the longer timeout isn't true any more
		s.retire(&zkconn.ShortError{Granted: c.Granted})
	}
	s.endWatches()
}

// Lost implements zkconn.Events.
func (s *session) Lost(cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.retire(cause)
}

// HasNodes implements zkconn.Events.
func (s *session) HasNodes() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.nodes) > 0
}

// Heartbeat implements zkconn.Events: it reads something, so that there is always a new sign of
// life (see proof.go), and it watches own nodes, which gives signs of life, too.
func (s *session) Heartbeat() {
	if sent, err := s.conn.ReadRoot(); !zkconn.Broken(err) {
		s.answered(sent, driver.Now())
	}
	s.mu.Lock()
	s.unwatched = append(s.unwatched, s.created...)
	s.created = nil
	s.mu.Unlock()
	s.watchOwnNodes()
}

// Woken implements zkconn.Events.
func (s *session) Woken() { s.watchOwnNodes() }

// retire ends the use of the session for leases. After retire only removals use it. mu is held.
func (s *session) retire(cause error) {
	if s.retired == nil {
		s.retired = cause
	}
	for _, l := range s.nodes {
		l.notifyLost(fmt.Errorf("%w: %w", locker.ErrLost, cause))
	}
}

// Usable implements kit.Session: it reports whether new acquisitions may use the session.
func (s *session) Usable() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.retired == nil && !s.conn.IsOver()
}

// track notes a node of l.
func (s *session) track(l *lock, path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.nodes[path] = l
	s.created = append(s.created, l)
	if s.retired != nil {
		l.notifyLost(fmt.Errorf("%w: %w", locker.ErrLost, s.retired))
	}
}

// untrack notes that a node of this session doesn't exist any more.
func (s *session) untrack(path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.nodes, path)
}

// isTracked reports whether a node of this session is not known to have gone.
func (s *session) isTracked(path string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.nodes[path] != nil
}

// wrote notes that the quorum acknowledged a write that was sent at sent, and returns the Base of
// the session's leases. Once the session is over an answer proves nothing, because the servers may
// be ending the session: see zkconn's silence.go.
func (s *session) wrote(sent driver.Instant) (driver.Instant, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn.IsOver() {
		return 0, zk.ErrClosing
	}
	s.proof.wrote(sent)
	return s.proof.base, nil
}

// base is the Base of the session's leases.
func (s *session) base() driver.Instant {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.proof.base
}

// answered notes that a read was answered.
func (s *session) answered(sent, now driver.Instant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.proof.answered(sent, now)
}

// Close implements kit.Session: it ends the session, and returns when that is done or ctx is over.
func (s *session) Close(ctx context.Context) error {
	s.conn.End(zkconn.ErrOver)
	select {
	case <-s.conn.Closed():
		return nil
	case <-ctx.Done():
		return fmt.Errorf("closing a session: %w", context.Cause(ctx))
	}
}
