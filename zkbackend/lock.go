package zkbackend

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/driver/kit"
	"github.com/fencedlock/locker/internal/zkconn"
)

// acquireLimit bounds all requests of an acquisition before it is granted or queued.
const acquireLimit = 5 * time.Second

// lock is one acquisition.
type lock struct {
	sessions   *kit.Sessions[*session]
	tasks      *kit.Tasks
	freed      *freed
	dir        string // the path of the lock's node
	owner      string // in its own node's name
	ttl        time.Duration
	noWait     bool
	joined     chan struct{} // closed when joinQueue has returned, which Acquire may not wait for; nil: it wasn't called
	label      string        // the data of its node: see driver.Label
	notifyLost func(cause error)

	mu         sync.Mutex
	session    *session     // from the first request on
	path       string       // of its node, once that is known
	version    int32        // of its node, as far as it is known
	token      locker.Token // the node's czxid
	dirVersion int32        // that the creation of the node gave the lock's node; -1: not known
	granted    bool         // nobody is before the node
	unlisted   bool         // a waiter's last list of the queue hasn't arrived
	remains    remains
	createdDir bool       // the lock's node was created for this, and may never have had a child
	unanswered bool       // a request to create something was sent on the session, and nothing that came later has an answer
	dirInDoubt bool       // the unanswered request may be one that creates the lock's node
	unproven   []*session // earlier sessions with such a request, whose end on the servers is not proved
	lateDir    bool       // a request on a session in unproven may create the lock's node, which then may never have a child
}

// remains says what of an acquisition may exist on the servers. Each value includes those before
// it.
type remains int

const (
	nothing        remains = iota
	oneNode                // its path is known, unless it is being created
	unansweredNode         // a request to create a node was sent, and has no answer
	earlierNode            // under an earlier session, which is over here, and perhaps not on the servers
)

// Acquire creates a node, and then waits for its turn. If the session ends in between, a new session
// creates a new node.
func (l *lock) Acquire(ctx context.Context) (driver.Grant, error) {
	if s, path := l.position(); path != "" {
		return l.wait(ctx, s, path)
	}
	limited, cancel := context.WithTimeout(ctx, acquireLimit)
	defer cancel()
	for {
		s, err := l.useSession(limited)
		if err != nil {
			return driver.Grant{}, err
		}
		grant, err := l.join(limited, s)
		if !errors.Is(err, zkconn.ErrOver) || limited.Err() != nil {
			return grant, err
		}
	}
}

// useSession returns the session of this acquisition, or makes it use one.
func (l *lock) useSession(ctx context.Context) (*session, error) {
	return l.useOr(func() (*session, error) { return l.sessions.Join(ctx, l.ttl) })
}

// useAnySession is useSession for a removal: what is left is found by its owner on any session. As many
// TTLs as possible may be in use by now.
func (l *lock) useAnySession(ctx context.Context) (*session, error) {
	return l.useOr(func() (*session, error) {
		if s, open := l.sessions.Any(); open {
			return s, nil
		}
		return l.sessions.Join(ctx, l.ttl)
	})
}

func (l *lock) useOr(join func() (*session, error)) (*session, error) {
	l.leaveOldSession()
	if s, _ := l.position(); s != nil {
		return s, nil
	}
	s, err := join()
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.session = s
	return s, nil
}

// leaveOldSession leaves a session that is over. Its nodes remain to be removed, also if the servers
// have said that they have ended it: the leader says so as soon as it has decided to end a session,
// and removes the nodes later, or never if it loses its quorum before.
func (l *lock) leaveOldSession() {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.session
	if s == nil || !s.conn.IsOver() {
		return
	}
	s.untrack(l.path)
	l.sessions.Leave(s)
	if l.unanswered {
		l.unproven = append(l.unproven, s)
		l.lateDir = l.lateDir || l.dirInDoubt
	}
	l.session, l.path, l.unanswered, l.dirInDoubt = nil, "", false, false
	if l.remains != nothing {
		l.remains = earlierNode
	}
}

// join calls joinQueue, and returns when ctx is over. A request that waits to be sent survives its
// connection: it fails only when no server could be dialled, which may take longer than an
// acquisition should. What joinQueue does later is removed by Release, which waits for its end.
func (l *lock) join(ctx context.Context, s *session) (driver.Grant, error) {
	joined := make(chan struct{})
	l.joined = joined
	return zkconn.Within(ctx, s.conn, func() (driver.Grant, error) {
		defer close(joined)
		return l.joinQueue(ctx, s)
	})
}

// awaitJoined waits for the end of a joinQueue for which Acquire hasn't waited: a removal must not
// overtake its requests.
func (l *lock) awaitJoined(ctx context.Context) error {
	if l.joined == nil {
		return nil
	}
	select {
	case <-l.joined: // also if ctx is over
		return nil
	default:
	}
	select {
	case <-l.joined:
		return nil
	case <-ctx.Done():
		s, _ := l.position()
		return s.conn.Unanswered()
	}
}

// joinQueue creates a node. If the answer is lost it looks for that node, on the same session: the
// servers execute one session's requests in order, and refuse what arrives on a connection that the
// session has left.
func (l *lock) joinQueue(ctx context.Context, s *session) (driver.Grant, error) {
	caughtUp := false // a server has answered that knows all that came before this call
	var pause listPause
	for {
		if err := s.conn.Ready(ctx); err != nil {
			return driver.Grant{}, err
		}
		first, err := l.ensureNode(ctx, s, caughtUp)
		switch {
		case zkconn.Broken(err):
			pause.after(ctx, err, s)
		case errors.Is(err, zk.ErrNoNode):
			if err := l.createDir(s); err != nil {
				return driver.Grant{}, explain(err)
			}
		case errors.Is(err, zk.ErrBadVersion): // another client came in between: count again
			caughtUp = true // the quorum has answered: see lockDir.catchUp
		case err != nil:
			return driver.Grant{}, explain(err)
		case first:
			return l.grant(s), nil
		case l.noWait:
			return driver.Grant{}, locker.ErrHeld // Release removes the node
		default:
			return driver.Grant{}, driver.ErrQueued
		}
	}
}

// mayHaveNode reports whether earlier requests may have created a node.
func (l *lock) mayHaveNode() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.remains >= unansweredNode || l.path != ""
}

func (l *lock) grant(s *session) driver.Grant {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.granted = true
	return driver.Grant{Token: l.token, Base: s.base(), TTL: l.ttl}
}

// knownVersion is the version that the node has unless somebody has written to it.
func (l *lock) knownVersion() int32 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.version
}

// noteVersion notes that somebody has written to the node, and it is no mark.
func (l *lock) noteVersion(path string, version int32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if path == l.path {
		l.version = version
	}
}

// position returns the session, and the path of the node if it is known.
func (l *lock) position() (*session, string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.session, l.path
}
