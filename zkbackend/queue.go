package zkbackend

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/driver/kit"
	"github.com/fencedlock/locker/internal/zkconn"
)

// recheckAfter is how often a waiter looks at the queue by itself, in case a watch is lost. Tests
// change it.
var recheckAfter = 30 * time.Second

var errRemoved = errors.New("its node was deleted")

// wait waits until the node of l, which is path, is the first. It watches the node before it and no
// other, so that a release wakes one waiter. The place in the queue exists while renewals prove it,
// so the wait goes on after errors of the connection.
func (l *lock) wait(ctx context.Context, s *session, path string) (driver.Grant, error) {
	dir := s.lockDir(l.dir)
	var pause listPause
	for {
		if errors.Is(s.conn.Cause(), zkconn.ErrSilent) {
			return driver.Grant{}, l.requeue(ctx)
		}
		before, isFirst, err := dir.predecessor(path)
		l.noteListed(err)
		pause.after(ctx, err, s)
		switch {
		case zkconn.Broken(err):
			if err := s.conn.Ready(ctx); err != nil && !errors.Is(err, zkconn.ErrSilent) {
				if ctx.Err() != nil {
					err = context.Cause(ctx)
				}
				return driver.Grant{}, err
			}
			continue
		case errors.Is(err, errRemoved):
			err = fmt.Errorf("%w: %w", locker.ErrLost, err)
			l.notifyLost(err) // the wait doesn't fail: it goes on with a new acquisition
			return driver.Grant{}, err
		case err != nil:
			return driver.Grant{}, explain(err)
		case before == nil:
			return l.grant(s), nil
		}
		recheck := time.NewTimer(recheckAfter/2 + rand.N(recheckAfter))
		select {
		case <-before.over:
			recheck.Stop()
			if isFirst && before.deleted {
				return l.grant(s), nil
			}
		case <-recheck.C:
		case <-s.conn.Done():
			recheck.Stop()
		case <-ctx.Done():
			recheck.Stop()
			return driver.Grant{}, context.Cause(ctx)
		}
	}
}

// requeue ends a wait whose session is over because the servers were silent. The engine then queues
// again with a new acquisition, which would fail while no server can be reached, though a wait
// shouldn't. So requeue returns when there is another session.
func (l *lock) requeue(ctx context.Context) error {
	for {
		s, err := l.sessions.Join(ctx, l.ttl)
		if err == nil {
			l.sessions.Leave(s)
			break
		}
		if !zkconn.Transient(err) {
			break // the new acquisition says why
		}
		if !kit.Sleep(ctx, 100*time.Millisecond+rand.N(200*time.Millisecond)) {
			return context.Cause(ctx)
		}
	}
	err := fmt.Errorf("%w: %w", locker.ErrLost, zkconn.ErrSilent)
	l.notifyLost(err)
	return err
}
