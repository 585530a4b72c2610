package redisbackend

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/internal/redisconn"
)

// grants is where a Locker hears that it is its turn: one channel, on one connection.
//
// It opens when somebody has to wait for the first time. Until the subscription stands waiters poll, because who can't be told must not
// queue. When it has come back after a break all places are renewed at once, and grants that were missed come to light.
type grants struct {
	*redisconn.Listener
	d *redisDriver

	mu       sync.Mutex
	expected map[string]*lock // who may be granted its lock, by owner
}

func newGrants(d *redisDriver) *grants {
	g := &grants{d: d, expected: make(map[string]*lock)}
	g.Listener = redisconn.NewListener(d.server.client, channelOf(d.prefix, driver.NewOwner()),
		redisconn.Events{Waiting: g.waiting, Stands: g.renewPlaces, Hears: g.hear})
	return g
}

// expect is called before l asks for its lock. It reports whether a grant would be heard.
func (g *grants) expect(l *lock) bool {
	stands := g.Stands()
	g.mu.Lock()
	defer g.mu.Unlock()
	if stands && l.ready == nil {
		l.ready, l.moved = make(chan struct{}), make(chan struct{}, 1)
		g.expected[l.owner] = l
	}
	return stands
}

// forget is called when nothing of l stands any more. Until then its grant must not be taken for that of nobody.
func (g *grants) forget(l *lock) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.expected, l.owner)
}

func (g *grants) waiting() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.expected) > 0
}

// want is called when somebody has to wait. unheard says that the server with the queue doesn't see the subscription
// that seems to stand: it has ended unnoticed, or it is with another server, as after a failover.
func (g *grants) want(unheard bool) {
	g.Start()
	if unheard {
		g.Distrust()
	}
}

// renewPlaces is called when the subscription stands. Places that were taken on an earlier connection are renewed: their
// grants may have been missed since.
func (g *grants) renewPlaces(ctx context.Context) {
	var places []driver.Lock
	g.mu.Lock()
	for _, l := range g.expected {
		if l.waits() {
			places = append(places, l)
		}
	}
	g.mu.Unlock()
	if len(places) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, maxLimit)
	defer cancel()
	g.d.Renew(ctx, places, func(i int, _ driver.Instant, err error) {
		if errors.Is(err, locker.ErrLost) {
			places[i].(*lock).tellLost(err)
		}
	})
}

// hear takes in a grant, "OWNER TOKEN STAMP KEY", or word of when to ask about a place, "OWNER MILLISECONDS".
func (g *grants) hear(_ context.Context, message string) {
	field := strings.SplitN(message, " ", 4)
	g.mu.Lock()
	l := g.expected[field[0]]
	g.mu.Unlock()
	switch len(field) {
	case 2:
		left, err := strconv.ParseInt(field[1], 10, 64)
		if err == nil && l != nil {
			l.tellLook(time.Duration(left) * time.Millisecond)
		}
	case 4:
		token, err := strconv.ParseInt(field[1], 10, 64)
		stamp, err2 := strconv.ParseInt(field[2], 10, 64)
		switch {
		case err != nil || err2 != nil:
		case l != nil:
			if err := l.granted(locker.Token(token), driver.Instant(stamp)); err != nil {
				l.tellLost(err)
			}
		default: // a late copy of a request has queued for an acquisition that is over: nobody else will release it
			g.Go(func(ctx context.Context) { g.d.disown(ctx, field[3], field[0]) })
		}
	}
}
