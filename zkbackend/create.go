package zkbackend

import (
	"context"

	"github.com/go-zookeeper/zk"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/internal/zkconn"
)

// The node of an acquisition: made once, also where the answer to its creation is lost.

// ensureNode creates a node, or finds the one that was created, and reports whether it is the
// first. caughtUp: see lockDir.versionIfFree.
func (l *lock) ensureNode(ctx context.Context, s *session, caughtUp bool) (first bool, err error) {
	if l.mayHaveNode() {
		if found, first, err := l.findOwnNode(ctx, s); found || err != nil {
			return first, err
		}
	}
	version := int32(-1) // any
	if l.noWait {
		if err := l.removeEarlierNodes(ctx, s); err != nil {
			return false, err
		}
		known := false
		if version, known = l.freed.take(l.dir); !known {
			if version, err = s.lockDir(l.dir).versionIfFree(ctx, l.owner, caughtUp); err != nil {
				return false, err
			}
		}
	}
	if ctx.Err() != nil { // nobody wants the node any more
		return false, s.conn.Unanswered()
	}
	alone, err := l.createNode(s, version)
	if err != nil || alone || !l.noWait {
		return alone, err
	}
	found, first, err := l.findOwnNode(ctx, s)
	if !found && err == nil {
		err = errRemoved
	}
	return first, err
}

// removeEarlierNodes deletes what an earlier session may have left of l, and what the servers have
// not deleted yet: it would look like another holder's.
func (l *lock) removeEarlierNodes(ctx context.Context, s *session) error {
	l.mu.Lock()
	remains := l.remains
	l.mu.Unlock()
	if remains != earlierNode {
		return nil
	}
	return s.lockDir(l.dir).removeAll(ctx, l.owner)
}

// createNode creates a node, in one transaction with a write to the lock's node. The write's answer
// has the number of children, and the zxid of this very transaction, which is the new node's czxid.
// If version isn't -1, the request fails when the lock's node doesn't have that version any more,
// because another client has created a node.
func (l *lock) createNode(s *session, version int32) (alone bool, err error) {
	l.mu.Lock()
	l.remains = max(l.remains, oneNode)
	l.mu.Unlock()
	name := l.dir + "/" + l.owner + "-"
	results, sent, err := s.conn.Transaction(
		&zk.CreateRequest{Path: name, Data: append([]byte(nil), l.label...), Acl: s.chroot.acl, Flags: zk.FlagEphemeralSequential},
		&zk.SetDataRequest{Path: l.dir, Version: version},
	)
	if err == nil {
		_, err = s.wrote(sent)
	}
	if err != nil {
		l.noteFailedCreate(err)
		return false, err
	}
	path, stat := results[0].String, results[1].Stat
	l.noteNode(s, path, stat.Mzxid)
	l.noteDirVersion(stat.Version)
	return stat.NumChildren == 1, nil
}

func (l *lock) noteFailedCreate(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case zkconn.Broken(err):
		l.remains, l.unanswered = max(l.remains, unansweredNode), true
	case l.remains == oneNode: // it was refused
		l.remains = nothing
	}
}

func (l *lock) noteDirVersion(version int32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dirVersion = version
}

// createDir creates the lock's node. If the answer is lost, the next request finds out.
func (l *lock) createDir(s *session) error {
	l.mu.Lock()
	l.createdDir = true
	l.mu.Unlock()
	err := s.lockDir(l.dir).create()
	if !zkconn.Broken(err) {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unanswered, l.dirInDoubt = true, true
	return nil
}

// findOwnNode looks for the node that l has under this session, in the list of a server that knows
// every earlier write: if it missed the node, the next node of l would wait for it. Other nodes of l are
// removed: they are of earlier sessions, and nobody holds the lock by them.
func (l *lock) findOwnNode(ctx context.Context, s *session) (found, first bool, err error) {
	dir := s.lockDir(l.dir)
	if err := dir.catchUp(ctx); err != nil {
		return false, false, zkconn.Ignore(err, zk.ErrNoNode)
	}
	queue, _, err := dir.queue()
	if err != nil {
		return false, false, zkconn.Ignore(err, zk.ErrNoNode)
	}
	for _, n := range queue {
		if n.owner != l.owner {
			continue
		}
		path := l.dir + "/" + n.name
		stat, err := s.conn.Exists(path)
		if err != nil {
			return false, false, err
		}
		if stat == nil || stat.EphemeralOwner != s.conn.ID() { // it is one of an earlier session
			continue
		}
		l.noteNode(s, path, stat.Czxid)
		queue, err = dir.removeOthers(path, queue)
		return true, err == nil && queue[0] == n, err
	}
	return false, false, nil
}

// noteNode notes that the node exists.
func (l *lock) noteNode(s *session, path string, czxid int64) {
	l.mu.Lock()
	before := l.path
	l.path, l.token, l.createdDir = path, locker.Token(czxid), false
	l.unanswered, l.dirInDoubt = false, false // the session has another connection by now
	l.dirVersion, l.granted = -1, false
	if path != before {
		l.version = 0 // a node that somebody has written to already is found to have another one
	}
	l.mu.Unlock()
	if path != before {
		s.untrack(before)
		s.track(l, path)
	}
}
