package redisbackend

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
)

// grants is where a Locker hears that it is its turn: one channel, on one connection.
//
// It opens when somebody has to wait for the first time, in a goroutine that ends with close. Until the subscription
// stands waiters poll, because who can't be told must not queue. When it has come back after a break all places are
// renewed at once, and grants that were missed come to light.
type grants struct {
	d       *redisDriver
	channel string

	life context.Context // until close
	end  context.CancelFunc
	all  sync.WaitGroup // goroutines: run, and short-lived ones that it or an answer has started

	mu       sync.Mutex
	expected map[string]*lock // who may be granted its lock, by owner
	started  bool
	pubsub   *redis.PubSub // the present connection; nil: none
	stands   bool          // the server has confirmed the subscription
	since    time.Time     // when it did
	watch    *time.Timer   // looks at it
	quiet    int           // looks since something was heard
}

const (
	watchEvery    = 5 * time.Second
	watchPatience = 3 // looks without a sound, two of them after a ping, until a connection counts as dead
	firstPause    = 10 * time.Millisecond
	longestPause  = time.Second
)

func newGrants(d *redisDriver) *grants {
	g := &grants{d: d, channel: channelOf(d.prefix, driver.NewOwner()), expected: make(map[string]*lock)}
	g.life, g.end = context.WithCancel(context.Background())
	return g
}

// expect is called before l asks for its lock. It reports whether a grant would be heard.
func (g *grants) expect(l *lock) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.stands && l.ready == nil {
		l.ready, l.moved = make(chan struct{}), make(chan struct{}, 1)
		g.expected[l.owner] = l
	}
	return g.stands
}

// forget is called when nothing of l stands any more. Until then its grant must not be taken for that of nobody.
func (g *grants) forget(l *lock) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.expected, l.owner)
}

// want is called when somebody has to wait. unheard says that the server with the queue doesn't see the subscription
// that seems to stand: it has ended unnoticed, or it is with another server, as after a failover. Then it is made anew.
func (g *grants) want(unheard bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.life.Err() != nil:
	case !g.started:
		g.started = true
		g.all.Go(g.run)
	case unheard && g.stands && time.Since(g.since) > longestPause: // not again and again
		g.hangUp()
	}
}

// hangUp ends the present connection, which listen notices. Closing may have to wait for a dial that is under way, and
// callers have mutexes.
func (g *grants) hangUp() {
	g.stands = false
	if pubsub := g.pubsub; pubsub != nil {
		g.pubsub = nil
		if g.watch != nil {
			g.watch.Stop()
		}
		g.all.Go(func() { _ = pubsub.Close() })
	}
}

func (g *grants) close(ctx context.Context) error {
	g.end()
	g.mu.Lock()
	g.hangUp()
	g.mu.Unlock()
	done := make(chan struct{})
	go func() {
		defer close(done)
		g.all.Wait()
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// run keeps a connection open.
func (g *grants) run() {
	pause := firstPause
	for {
		if stood := g.listen(); stood {
			pause = firstPause
		}
		if !sleep(g.life, pause/2+rand.N(pause)) {
			return
		}
		pause = min(2*pause, longestPause)
	}
}

// listen hears what comes on one connection until that ends. It reports whether the subscription had stood.
func (g *grants) listen() (stood bool) {
	pubsub := g.d.server.client.Subscribe(g.life, g.channel)
	g.mu.Lock()
	g.pubsub = pubsub
	if g.life.Err() != nil {
		g.hangUp()
	}
	g.mu.Unlock()
	defer func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.pubsub == pubsub {
			g.hangUp()
		}
	}()
	g.startWatch(pubsub)
	for {
		message, err := pubsub.Receive(g.life)
		if err != nil {
			return stood // go-redis has already tried another connection, but not told anybody
		}
		g.heard()
		switch m := message.(type) {
		case *redis.Subscription:
			stood = true
			g.confirmed(pubsub)
		case *redis.Message:
			g.hear(m.Payload)
		}
	}
}

func (g *grants) heard() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.quiet = 0
}

// confirmed is called when the subscription stands. Places that were taken on an earlier connection are renewed: their
// grants may have been missed since.
func (g *grants) confirmed(pubsub *redis.PubSub) {
	var places []driver.Lock
	g.mu.Lock()
	if g.pubsub == pubsub {
		g.stands, g.since = true, time.Now()
		for _, l := range g.expected {
			if l.waits() {
				places = append(places, l)
			}
		}
	}
	g.mu.Unlock()
	if len(places) > 0 {
		ctx, cancel := context.WithTimeout(g.life, maxLimit)
		defer cancel()
		g.d.Renew(ctx, places, func(i int, _ driver.Instant, err error) {
			if errors.Is(err, locker.ErrLost) {
				places[i].(*lock).tellLost(err)
			}
		})
	}
}

// hear takes in a grant, "OWNER TOKEN STAMP KEY", or word of when to ask about a place, "OWNER MILLISECONDS".
func (g *grants) hear(message string) {
	field := strings.SplitN(message, " ", 4)
	g.mu.Lock()
	l := g.expected[field[0]]
	g.mu.Unlock()
	switch len(field) {
	case 2:
		left, err := strconv.ParseInt(field[1], 10, 64)
		if err == nil && l != nil {
			l.lookIn(time.Duration(left) * time.Millisecond)
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
			g.all.Go(func() { g.d.disown(g.life, field[3], field[0]) })
		}
	}
}

// startWatch looks after a connection while somebody waits: one that was cut silently looks like one on which nothing
// happens.
func (g *grants) startWatch(pubsub *redis.PubSub) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.pubsub == pubsub {
		g.quiet = 0
		g.watch = time.AfterFunc(watchEvery, func() { g.look(pubsub) })
	}
}

func (g *grants) look(pubsub *redis.PubSub) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.pubsub != pubsub { // it has ended
		return
	}
	if g.quiet++; len(g.expected) == 0 {
		g.quiet = 0
	}
	switch {
	case g.quiet == watchPatience:
		g.hangUp()
		return
	case g.quiet > 0:
		g.all.Go(func() { // what comes of it is seen at the next look
			ctx, cancel := context.WithTimeout(g.life, maxLimit)
			defer cancel()
			_ = pubsub.Ping(ctx)
		})
	}
	g.watch.Reset(watchEvery)
}
