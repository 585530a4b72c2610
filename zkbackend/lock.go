package zkbackend

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/internal/zkconn"
)

// acquireLimit bounds all that an acquisition asks before it is granted or queued.
const acquireLimit = 5 * time.Second

// lock is one acquisition.
type lock struct {
	d        *zkDriver
	dir      string // the lock's node
	ttl      time.Duration
	noWait   bool
	tellLost func(cause error)

	mu      sync.Mutex
	owner   string       // in the node's name: another one once the servers have ended a session
	session *session     // from the first request on
	path    string       // of its node, once that is known
	token   locker.Token // the node's czxid
	asked   bool         // something may stand
	doubt   bool         // a request was sent that has no answer, so there may be a node
	earlier bool         // there may be one under an earlier session, which the servers have not ended
	bare    bool         // the lock's node was made, and may never have had one below
}

// Acquire makes a node, and then waits for its turn. A session that has ended meanwhile has taken with it all that may
// have stood, so that the next one begins anew.
func (l *lock) Acquire(ctx context.Context) (driver.Grant, error) {
	if s, path := l.position(); path != "" {
		return l.wait(ctx, s, path)
	}
	limited, cancel := context.WithTimeout(ctx, acquireLimit)
	defer cancel()
	for {
		s, err := l.enter(limited)
		if err != nil {
			return driver.Grant{}, err
		}
		grant, err := l.ask(limited, s)
		if !errors.Is(err, errOver) || limited.Err() != nil {
			return grant, err
		}
	}
}

// enter makes l a user of a session, unless it is one already.
func (l *lock) enter(ctx context.Context) (*session, error) {
	l.part()
	if s, _ := l.position(); s != nil {
		return s, nil
	}
	s, err := l.d.session(ctx, l.ttl)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.session = s
	return s, nil
}

// part leaves a session that is over. One that the servers have ended has taken with it all that may have stood. Should it
// live on after all, as after an odd failover, its node must not be taken for one of the next session's. What stands under
// any other remains to be removed.
func (l *lock) part() {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.session
	if s == nil || !s.isOver() {
		return
	}
	s.fall(l.path)
	l.d.leave(s)
	l.session, l.path, l.doubt = nil, "", l.asked
	switch {
	case !errors.Is(s.whyOver(), errExpired):
		l.earlier = l.asked
	case !l.earlier:
		l.asked, l.doubt, l.owner = false, false, driver.NewOwner()
	}
}

// ask makes a node. When the answer is lost it looks for it, on the same session: the servers carry out what one session
// asks in order, and refuse what arrives on a connection that the session has left.
func (l *lock) ask(ctx context.Context, s *session) (driver.Grant, error) {
	for {
		if err := s.ready(ctx); err != nil {
			return driver.Grant{}, err
		}
		first, err := l.place(ctx, s)
		switch {
		case broken(err):
		case errors.Is(err, zk.ErrNoNode):
			l.mu.Lock()
			l.bare = true
			l.mu.Unlock()
			if err := s.makeDir(l.dir); err != nil && !broken(err) {
				return driver.Grant{}, explain(err)
			}
		case errors.Is(err, zk.ErrBadVersion): // somebody came in between: count again
		case err != nil:
			return driver.Grant{}, explain(err)
		case first:
			return l.grant(s), nil
		case l.noWait:
			return driver.Grant{}, locker.ErrHeld // Release takes the node away
		default:
			return driver.Grant{}, driver.ErrQueued
		}
	}
}

// place makes a node, or finds the one that was made, and reports whether it is the first.
func (l *lock) place(ctx context.Context, s *session) (first bool, err error) {
	if l.mayStand() {
		if found, first, err := l.find(ctx, s); found || err != nil {
			return first, err
		}
	}
	version := int32(-1) // any
	if l.noWait {
		if version, err = s.count(l.dir); err != nil {
			return false, err
		}
	}
	alone, err := l.make(s, version)
	if err != nil || alone || !l.noWait {
		return alone, err
	}
	_, first, err = l.find(ctx, s)
	return first, err
}

// make makes a node, in one request with a write to the lock's node: that tells how many children there are, and the zxid
// of this very request, which is the new node's czxid. Where version isn't -1 nobody else may have done so since it was
// that of the lock's node.
func (l *lock) make(s *session, version int32) (alone bool, err error) {
	l.mu.Lock()
	l.asked = true
	name := l.dir + "/" + l.owner + "-"
	l.mu.Unlock()
	var results []zk.MultiResponse
	sent, err := s.write(func() (err error) {
		results, err = s.conn.Multi(
			&zk.CreateRequest{Path: name, Acl: l.d.acl, Flags: zk.FlagEphemeralSequential},
			&zk.SetDataRequest{Path: l.dir, Version: version},
		)
		return err
	})
	if err == nil {
		_, err = s.wrote(sent)
	}
	if err != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.doubt = l.doubt || broken(err)
		l.asked = l.doubt
		return false, err
	}
	path, stat := results[0].String, results[1].Stat
	l.stands(s, path, stat.Mzxid)
	return stat.NumChildren == 1, nil
}

// find looks for the node that l has under this session, among all that are there, of which the server is made to know the
// latest: if one were missed, the next would wait for it.
func (l *lock) find(ctx context.Context, s *session) (found, first bool, err error) {
	if err := s.catchUp(ctx, l.dir); err != nil {
		return false, false, zkconn.Ignore(err, zk.ErrNoNode)
	}
	l.mu.Lock()
	owner := l.owner
	l.mu.Unlock()
	queue, _, err := s.queue(l.dir)
	if err != nil {
		return false, false, zkconn.Ignore(err, zk.ErrNoNode)
	}
	for i, n := range queue {
		if n.owner != owner {
			continue
		}
		path := l.dir + "/" + n.name
		there, stat, err := s.conn.Exists(path)
		if err != nil {
			return false, false, err
		}
		if !there || stat.EphemeralOwner != s.conn.SessionID() { // it is one of an earlier session
			continue
		}
		l.stands(s, path, stat.Czxid)
		return true, i == 0, nil
	}
	return false, false, nil
}

// stands notes that the node is there.
func (l *lock) stands(s *session, path string, czxid int64) {
	l.mu.Lock()
	before := l.path
	l.path, l.token, l.bare = path, locker.Token(czxid), false
	l.mu.Unlock()
	if path != before {
		s.fall(before)
		s.stand(l, path)
	}
}

// mayStand reports whether there may be a node already, by what was asked before.
func (l *lock) mayStand() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.doubt || l.path != ""
}

func (l *lock) grant(s *session) driver.Grant {
	l.mu.Lock()
	defer l.mu.Unlock()
	return driver.Grant{Token: l.token, Base: s.base(), TTL: l.ttl}
}

// position returns the path of the node, while it is to stand.
func (l *lock) position() (*session, string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.session, l.path
}
