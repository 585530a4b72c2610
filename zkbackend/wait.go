package zkbackend

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
)

// lookAgain is how often a waiter looks at the queue by itself, should a watch ever be lost. Tests change it.
var lookAgain = 30 * time.Second

// wait waits until the node of l, which is path, is the first: it watches the one before it and no other, so that a release
// wakes one waiter. The place stands while renewals prove it, so errors of the connection are ridden out.
func (l *lock) wait(ctx context.Context, s *session, path string) (driver.Grant, error) {
	for {
		before, last, err := s.before(l.dir, path)
		switch {
		case broken(err):
			if err := s.ready(ctx); err != nil {
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
		case <-ctx.Done():
			again.Stop()
			return driver.Grant{}, context.Cause(ctx)
		}
	}
}

// gaveUp is the error of a wait that was ended while there was no connection.
func (l *lock) gaveUp(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
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
