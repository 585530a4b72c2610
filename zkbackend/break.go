package zkbackend

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/driver/kit"
	"github.com/fencedlock/locker/internal/zkconn"
)

// An operator who takes a lock away marks the data of the holder's node ([kit.Marked]). The node, its
// session and its czxid stay, and its version rises. The watch of the own node fires, and the mark is
// read at once; or the next renewal finds the other version.

var _ driver.Breaker = (*zkDriver)(nil)

// Break marks or deletes the first of the lock's nodes, which is the holder's. While it exists no
// earlier one can come to exist, so to change this node is to change the holder's.
func (d *zkDriver) Break(ctx context.Context, name string, token locker.Token, breach locker.Breach) (locker.Effect, error) {
	unanswered := false // perhaps a request that marks or deletes the node: its answer was lost with the connection
	_, err := asking(ctx, d, func(s *session) (struct{}, error) {
		dir := s.lockDir(d.chroot.dir(name, breach.Slot))
		path, version, data, err := dir.holder(ctx, token)
		if err != nil {
			if unanswered && errors.Is(err, locker.ErrNotHolder) { // it was deleted, or its holder has seen the mark
				err = nil
			}
			return struct{}{}, err
		}
		if breach.AtOnce {
			err = zkconn.Ignore(s.conn.Delete(path), zk.ErrNoNode)
		} else {
			err = dir.mark(ctx, path, version, data, token, breach)
		}
		unanswered = unanswered || zkconn.Broken(err)
		return struct{}{}, err
	})
	if errors.Is(err, zk.ErrNoAuth) {
		err = fmt.Errorf("%w; %w", locker.ErrNoBreaker, explain(err))
	}
	if err != nil || breach.AtOnce {
		return locker.Effect{}, err
	}
	return locker.Effect{Within: d.longestTTL()}, nil
}

// longestTTL is how long a lease may last: the servers tell nobody the timeout of another session.
func (d *zkDriver) longestTTL() time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.bounds.Max
}

// holder returns the path of the first node with its version and its data, if it has that token.
func (d lockDir) holder(ctx context.Context, token locker.Token) (path string, version int32, data string, err error) {
	if err := d.catchUp(ctx); err != nil {
		if errors.Is(err, zk.ErrNoNode) {
			err = locker.ErrNotHolder
		}
		return "", 0, "", err
	}
	for {
		nodes, _, err := d.queue()
		if errors.Is(err, zk.ErrNoNode) || err == nil && len(nodes) == 0 {
			return "", 0, "", locker.ErrNotHolder
		}
		if err != nil {
			return "", 0, "", err
		}
		path := d.path + "/" + nodes[0].name
		bytes, stat, err := d.s.conn.Get(path)
		switch {
		case errors.Is(err, zk.ErrNoNode): // it has gone since, and the next one has the lock
			continue
		case err != nil:
			return "", 0, "", err
		case locker.Token(stat.Czxid) != token:
			return "", 0, "", locker.ErrNotHolder
		}
		return path, stat.Version, string(bytes), nil
	}
}

// mark writes the mark, unless there is one.
func (d lockDir) mark(
	ctx context.Context, path string, version int32, data string, token locker.Token,
	breach locker.Breach,
) error {
	for {
		label, marked := kit.ReadMarked(data)
		if marked != nil {
			return nil
		}
		err := d.s.conn.SetData(path, []byte(kit.Marked(breach, label)), version)
		switch {
		case errors.Is(err, zk.ErrNoNode):
			return locker.ErrNotHolder
		case !errors.Is(err, zk.ErrBadVersion): // else somebody has written to it since
			return err
		}
		if path, version, data, err = d.holder(ctx, token); err != nil {
			return err
		}
	}
}
