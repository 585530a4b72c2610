package redisbackend

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/driver/kit"
	"github.com/fencedlock/locker/internal/redisconn"
)

// grantListener is where a Locker hears that a lock was granted to it: one channel, on one
// connection.
//
// It starts when somebody has to wait for the first time. While no subscription is confirmed new
// waiters poll, because a waiter that can't be notified must not queue. When it is confirmed they
// ask at once, and then queue. When it has come back after a break all places are renewed at once
// as well, which finds grants that were missed.
type grantListener struct {
	*redisconn.Listener
	d *redisDriver

	mu        sync.Mutex
	confirmed chan struct{}    // closed, and made again, when the subscription is confirmed
	expected  map[string]*lock // acquisitions that may be granted their lock, by owner
	former    formerOwners     // of acquisitions that are over, and may be granted their lock all the same
}

func newGrantListener(d *redisDriver) *grantListener {
	g := &grantListener{d: d, confirmed: make(chan struct{}), expected: make(map[string]*lock)}
	g.Listener = redisconn.NewListener(d.router.conn.Client, channelOf(d.prefix, driver.NewOwner()),
		redisconn.Events{Waiting: g.isExpecting, Subscribed: g.onSubscribed, Message: g.hear})
	return g
}

// expect is called before l asks for its lock. It reports whether a grant would be heard.
func (g *grantListener) expect(l *lock) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	l.confirmed = g.confirmed // first, because the subscription may be confirmed now
	subscribed := g.Subscribed()
	if subscribed && l.changed == nil {
		l.changed = kit.NewSignal()
		g.expected[l.owner] = l
	}
	return subscribed
}

// forget is called when nothing of l exists any more. Until then its grant must not be mistaken for
// a ghost's.
func (g *grantListener) forget(l *lock) {
	l.mu.Lock()
	lingers := l.lingers
	l.mu.Unlock()
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.expected, l.owner)
	if lingers {
		g.former.add(l.owner, l.lingersFor())
	}
}

func (g *grantListener) isExpecting() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.expected) > 0
}

// ensureListening is called when somebody has to wait. unheard says that the server with the queue
// doesn't see the subscription though it was confirmed: it has ended unnoticed, or it is on another
// server, as after a failover.
func (g *grantListener) ensureListening(unheard bool) {
	g.Start()
	if unheard {
		g.Resubscribe()
	}
}

// failure is why waiters have had no subscription for some time; nil: they have one, or it was missing
// for a moment only.
func (g *grantListener) failure() error {
	err := g.Failure()
	if err == nil {
		return nil
	}
	return fmt.Errorf("no place in the queue, because the subscription fails: %w", permissionsFor(g.d.prefix).Explain(err))
}

// onSubscribed is called when the subscription is confirmed.
func (g *grantListener) onSubscribed(ctx context.Context) {
	g.mu.Lock()
	close(g.confirmed)
	g.confirmed = make(chan struct{})
	g.mu.Unlock()
	g.renewPlaces(ctx)
}

// renewPlaces finds the grants of places that were taken on an earlier connection, which may have been
// missed since.
func (g *grantListener) renewPlaces(ctx context.Context) {
	var places []driver.Lock
	g.mu.Lock()
	for _, l := range g.expected {
		if l.isWaiting() {
			places = append(places, l)
		}
	}
	g.mu.Unlock()
	if len(places) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, messageTimeout)
	defer cancel()
	g.d.Renew(ctx, places, func(i int, _ driver.Instant, err error) {
		if errors.Is(err, locker.ErrLost) {
			places[i].(*lock).notifyLost(err)
		}
	})
}

// hear processes a message.
func (g *grantListener) hear(_ context.Context, text string) {
	m, ok := parseMessage(text)
	if !ok {
		return
	}
	g.mu.Lock()
	l, former := g.expected[m.owner], g.former.has(m.owner)
	g.mu.Unlock()
	switch {
	case l != nil && m.grant:
		if err := l.granted(m.token, m.stamp); err != nil {
			l.notifyLost(err)
		}
		if l.isRemoving() { // a try to remove it may have failed, and the next one may come late
			g.releaseGhost(m, l.ttl)
		}
	case l != nil:
		l.notifyRecheck(m.recheck)
	case m.grant && former: // a late copy of a request has queued for an acquisition that is over: nobody else will release it
		g.releaseGhost(m, defaultTTL) // release.lua doesn't shorten the tombstone of the first release
	}
}

// releaseGhost begins the release of a lock that was granted to an acquisition that is over.
func (g *grantListener) releaseGhost(m message, ttl time.Duration) {
	g.Go(func(ctx context.Context) { g.d.releaseGhost(ctx, m.key, m.owner, ttl) })
}

// message is what a Locker hears: a grant, or when to ask about a place.
type message struct {
	owner   string
	grant   bool
	token   locker.Token   // of a grant
	stamp   driver.Instant // of a grant: of the refresh from which the lease counts
	key     string         // of a grant: the lock's
	recheck time.Duration  // in how long to ask
}

// parseMessage reads "OWNER TOKEN STAMP KEY" or "OWNER MILLISECONDS".
func parseMessage(text string) (m message, ok bool) {
	field := strings.SplitN(text, " ", 4)
	m.owner = field[0]
	switch len(field) {
	case 2:
		left, err := strconv.ParseInt(field[1], 10, 64)
		m.recheck = time.Duration(left) * time.Millisecond
		return m, err == nil
	case 4:
		token, err := strconv.ParseInt(field[1], 10, 64)
		stamp, err2 := strconv.ParseInt(field[2], 10, 64)
		m.grant, m.token, m.stamp, m.key = true, locker.Token(token), driver.Instant(stamp), field[3]
		return m, err == nil && err2 == nil
	}
	return m, false
}
