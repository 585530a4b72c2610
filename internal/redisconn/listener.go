package redisconn

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// Listener is a subscription to one channel, on one connection at a time. It begins with Start, in a goroutine that ends with Close, and is
// made anew when its connection has ended.
type Listener struct {
	client  Subscriber
	channel string
	events  Events

	life context.Context // until Close
	end  context.CancelFunc
	all  sync.WaitGroup // goroutines: run, and short-lived ones

	mu      sync.Mutex
	started bool
	pubsub  *redis.PubSub // the present connection; nil: none
	stands  bool          // the server has confirmed the subscription
	since   time.Time     // when it did
	watch   *time.Timer   // looks at it
	quiet   int           // looks since something was heard
}

// Subscriber is a client of any kind.
type Subscriber interface {
	Subscribe(ctx context.Context, channels ...string) *redis.PubSub
}

// Events are called while no mutex of the Listener is held. Those with a context are called one after the other; it ends with Close.
type Events struct {
	Waiting func() bool           // reports whether anybody waits; where nobody does, it doesn't matter whether the connection is dead
	Stands  func(context.Context) // the subscription stands, for the first time or anew: messages may have been missed before
	Hears   func(ctx context.Context, message string)
}

const (
	watchEvery    = 5 * time.Second
	watchPatience = 3 // looks without a sound, two of them after a ping, until a connection counts as dead
	pingLimit     = 2 * time.Second
	firstPause    = 10 * time.Millisecond
	longestPause  = time.Second
)

// NewListener makes a Listener that has yet to be started.
func NewListener(client Subscriber, channel string, events Events) *Listener {
	l := &Listener{client: client, channel: channel, events: events}
	l.life, l.end = context.WithCancel(context.Background())
	return l
}

// Start begins to listen. It does so once, and not after Close.
func (l *Listener) Start() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.started && l.life.Err() == nil {
		l.started = true
		l.all.Go(l.run)
	}
}

// Channel is what it listens to.
func (l *Listener) Channel() string { return l.channel }

// Stands reports whether a message would be heard, as far as is known.
func (l *Listener) Stands() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stands
}

// Distrust makes a subscription anew that seems to stand, and that the server doesn't see; but not again and again.
func (l *Listener) Distrust() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stands && time.Since(l.since) > longestPause {
		l.hangUp()
	}
}

// Go runs f aside; Close waits for it. It is called by Events alone.
func (l *Listener) Go(f func(ctx context.Context)) { l.all.Go(func() { f(l.life) }) }

// Close ends the subscription. It returns when all goroutines have ended, or ctx is over.
func (l *Listener) Close(ctx context.Context) error {
	l.mu.Lock()
	l.end()
	l.hangUp()
	l.mu.Unlock()
	done := make(chan struct{})
	go func() {
		defer close(done)
		l.all.Wait()
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// hangUp ends the present connection, which listen notices. Closing may have to wait for a dial that is under way, and
// callers have mutexes.
func (l *Listener) hangUp() {
	l.stands = false
	if pubsub := l.pubsub; pubsub != nil {
		l.pubsub = nil
		l.watch.Stop()
		l.all.Go(func() { _ = pubsub.Close() })
	}
}

// run keeps a connection open.
func (l *Listener) run() {
	pause := firstPause
	for {
		if stood := l.listen(); stood {
			pause = firstPause
		}
		if !Sleep(l.life, pause/2+rand.N(pause)) {
			return
		}
		pause = min(2*pause, longestPause)
	}
}

// listen hears what comes on one connection until that ends. It reports whether the subscription had stood.
func (l *Listener) listen() (stood bool) {
	pubsub := l.client.Subscribe(l.life, l.channel)
	l.begin(pubsub)
	defer func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.pubsub == pubsub {
			l.hangUp()
		}
	}()
	for {
		message, err := pubsub.Receive(l.life)
		if err != nil {
			return stood // go-redis has already tried another connection, but not told anybody
		}
		_, confirms := message.(*redis.Subscription)
		l.heard(pubsub, confirms)
		if confirms {
			stood = true
			l.events.Stands(l.life)
		}
		if m, ok := message.(*redis.Message); ok {
			l.events.Hears(l.life, m.Payload)
		}
	}
}

func (l *Listener) begin(pubsub *redis.PubSub) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pubsub, l.quiet = pubsub, 0
	l.watch = time.AfterFunc(watchEvery, func() { l.look(pubsub) })
	if l.life.Err() != nil {
		l.hangUp()
	}
}

func (l *Listener) heard(pubsub *redis.PubSub, confirms bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.quiet = 0
	if confirms && l.pubsub == pubsub {
		l.stands, l.since = true, time.Now()
	}
}

// look looks after a connection while somebody waits: one that was cut silently looks like one on which nothing happens.
func (l *Listener) look(pubsub *redis.PubSub) {
	waiting := l.events.Waiting()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.pubsub != pubsub { // it has ended
		return
	}
	if l.quiet++; !waiting {
		l.quiet = 0
	}
	switch {
	case l.quiet == watchPatience:
		l.hangUp()
		return
	case l.quiet > 0:
		l.all.Go(func() { // what comes of it is seen at the next look
			ctx, cancel := context.WithTimeout(l.life, pingLimit)
			defer cancel()
			_ = pubsub.Ping(ctx)
		})
	}
	l.watch.Reset(watchEvery)
}
