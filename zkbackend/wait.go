package zkbackend

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/internal/zkconn"
)

// lookAgain is how often a waiter looks at the queue by itself, should a watch ever be lost. Tests change it.
var lookAgain = 30 * time.Second

// wait waits until the node of l, which is path, is the first: it watches the one before it and no other, so that a release
// wakes one waiter. The place stands while renewals prove it, so errors of the connection are ridden out.
func (l *lock) wait(ctx context.Context, s *session, path string) (driver.Grant, error) {
	for {
		if errors.Is(s.whyOver(), errSilent) {
			return driver.Grant{}, l.moveOn(ctx)
		}
		before, last, err := s.before(l.dir, path)
		switch {
		case broken(err):
			if err := s.ready(ctx); err != nil && !errors.Is(err, errSilent) {
				return driver.Grant{}, l.gaveUp(ctx, err)
			}
			continue
		case errors.Is(err, errRemoved):
			err = fmt.Errorf("%w: %w", locker.ErrLost, err)
			l.tellLost(err) // no failure of the wait, which goes on with a new acquisition
			return driver.Grant{}, err
		case err != nil:
			return driver.Grant{}, explain(err)
		case before == nil:
			return l.grant(s), nil
		}
		again := time.NewTimer(lookAgain/2 + rand.N(lookAgain))
		select {
		case <-before.over:
			again.Stop()
			if last && before.deleted {
				return l.grant(s), nil
			}
		case <-again.C:
		case <-s.life.Done():
			again.Stop()
		case <-ctx.Done():
			again.Stop()
			return driver.Grant{}, context.Cause(ctx)
		}
	}
}

// moveOn ends a wait whose session is over because the servers were silent. The engine queues again then, with a new acquisition, which
// fails where no server can be reached, and a wait does not. So it returns when there is another session.
func (l *lock) moveOn(ctx context.Context) error {
	for {
		s, err := l.d.session(ctx, l.ttl)
		if err == nil {
			l.d.leave(s)
			break
		}
		if !transient(err) {
			break // the new acquisition says why
		}
		pause := time.NewTimer(100*time.Millisecond + rand.N(200*time.Millisecond))
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return context.Cause(ctx)
		}
	}
	err := fmt.Errorf("%w: %w", locker.ErrLost, errSilent)
	l.tellLost(err)
	return err
}

// gaveUp is the error of a wait that was ended while there was no connection.
func (l *lock) gaveUp(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// withoutLeftovers deletes the other nodes of an acquisition whose node is path, which would wait for itself otherwise. They are of a
// session that is over here, and that the servers have not ended yet.
func (s *session) withoutLeftovers(dir, path string, queue []node) ([]node, error) {
	mine := func(n node) bool { return strings.HasPrefix(path, dir+"/"+n.owner+"-") && dir+"/"+n.name != path }
	for _, n := range queue {
		if mine(n) {
			if err := zkconn.Ignore(s.deleteNode(dir+"/"+n.name), zk.ErrNoNode); err != nil {
				return nil, err
			}
		}
	}
	return slices.DeleteFunc(queue, mine), nil
}

// before returns the watch on the node before the one that is path; nil: there is none. last says that there is no other
// before it.
func (s *session) before(dir, path string) (w *watch, last bool, err error) {
	queue, _, err := s.queue(dir)
	if errors.Is(err, zk.ErrNoNode) {
		return nil, false, errRemoved
	}
	if err != nil {
		return nil, false, err
	}
	if queue, err = s.withoutLeftovers(dir, path, queue); err != nil {
		return nil, false, err
	}
	i := slices.IndexFunc(queue, func(n node) bool { return dir+"/"+n.name == path })
	switch i {
	case -1:
		return nil, false, errRemoved
	case 0:
		return nil, true, nil
	}
	w, err = s.watch(dir + "/" + queue[i-1].name)
	return w, i == 1, err
}
