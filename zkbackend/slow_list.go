package zkbackend

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
)

// The list of a long queue may arrive so slowly that its connection is given up (answerTimeout). No
// part of it is of use. Renewals on the same session wait behind it, so the list isn't asked for again
// at once: the session would lose all its leases. And the waiter doesn't know its place, so it must not
// say that somebody has the lock.

var (
	// errNoList says that a list was waited for until its connection ended. It is Broken.
	errNoList = errors.New("the list of the nodes hasn't arrived")

	// errUnlisted is the answer to a renewal of a waiter that hasn't got the last list: the engine takes
	// it for a service that doesn't answer.
	errUnlisted = fmt.Errorf("the list of the queue: %w", locker.ErrNoAnswer)
)

// children lists the nodes of holder and waiters, in no order. Nodes of strangers may be among them. A
// connection that has ended sooner than a slow list would end it was ended by something else, such as a restart of its
// server. Other errors say that no server was asked.
func (d lockDir) children() ([]string, *zk.Stat, error) {
	began := driver.Stamp()
	names, stat, err := d.s.conn.Children(d.path)
	if errors.Is(err, zk.ErrConnectionClosed) && driver.Stamp().Sub(began) >= answerTimeout(d.s.ttl)/2 {
		err = fmt.Errorf("%w: %w", errNoList, err)
	}
	return names, stat, err
}

// listPause comes before a queue is listed again whose list hasn't arrived: an eighth of the TTL, but a second at
// most, because the server may have stopped, and the next one have a list. Then it is twice as long each time, up
// to the TTL.
type listPause struct{ longest time.Duration }

// after waits if err says that a list hasn't arrived, until ctx or the session is over at most.
func (p *listPause) after(ctx context.Context, err error, s *session) {
	if err == nil {
		p.longest = 0
	}
	if !errors.Is(err, errNoList) {
		return
	}
	p.longest = min(max(2*p.longest, min(s.ttl/8, time.Second)), s.ttl)
	timer := time.NewTimer(p.longest/2 + rand.N(p.longest/2))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.conn.Done():
	case <-ctx.Done():
	}
}

// noteListed notes whether the last list of the queue has arrived.
func (l *lock) noteListed(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unlisted = errors.Is(err, errNoList)
}

// placeErr is the error of a node that exists, nil unless it is a waiter's that doesn't know its place.
func (l *lock) placeErr() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.unlisted {
		return errUnlisted
	}
	return nil
}
