package redisconn

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver/kit"
)

// Listener is a subscription to one channel, on one connection at a time. It begins with Start, in
// a goroutine that ends with Close. When its connection ends it subscribes again on a new one.
type Listener struct {
	client  Subscriber
	channel string
	events  Events

	tasks *kit.Tasks // run, and short-lived ones

	mu         sync.Mutex
	started    bool
	pubsub     *redis.PubSub // the present connection; nil: there is none
	subscribed bool          // the server has confirmed the subscription
	since      time.Time     // when that was, or when the subscription ended, or Start was called
	failure    error         // of the last try to subscribe
	check      *time.Timer   // calls checkConn
	unheard    int           // checks since something was heard
}

// Subscriber is a client of any kind.
type Subscriber interface {
	Subscribe(ctx context.Context, channels ...string) *redis.PubSub
}

// Events are called while no mutex of the Listener is held. Those with a context are called one
// after the other, and the context ends with Close.
type Events struct {
	// Waiting reports whether anybody waits for a message. If not, a dead connection does no harm.
	Waiting func() bool

	// Subscribed is called when the server has confirmed a subscription, the first time or again.
	// Earlier messages may have been missed.
	Subscribed func(context.Context)

	Message func(ctx context.Context, text string)
}

const (
	checkEvery   = 5 * time.Second
	maxUnheard   = 3 // checks without a sound, two of them after a ping, until a connection counts as dead
	pingLimit    = 2 * time.Second
	firstPause   = 10 * time.Millisecond // before it subscribes again; doubled with each failure
	longestPause = time.Second
	failsAfter   = 2 * time.Second // a subscription that is not confirmed for so long has failed
)

// NewListener makes a Listener that is not started.
func NewListener(client Subscriber, channel string, events Events) *Listener {
	return &Listener{client: client, channel: channel, events: events, tasks: kit.NewTasks()}
}

// Start begins to listen. A second call does nothing, nor does one after Close.
func (l *Listener) Start() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.started {
		l.started, l.since, l.failure = l.tasks.Go(l.run), time.Now(), locker.ErrNoAnswer
	}
}

// Channel returns the channel.
func (l *Listener) Channel() string { return l.channel }

// Subscribed reports whether a message would be heard, as far as is known.
func (l *Listener) Subscribed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.subscribed
}

// Failure is why no subscription has been confirmed for some time, though it was started; nil: there
// is one, or the time is short.
func (l *Listener) Failure() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.subscribed || time.Since(l.since) < failsAfter {
		return nil
	}
	return l.failure
}

// Resubscribe replaces a subscription that the server doesn't see though it was confirmed, but at
// most about once a second.
func (l *Listener) Resubscribe() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.subscribed && time.Since(l.since) > longestPause {
		l.disconnect()
	}
}

// Go runs f in a goroutine that Close waits for. Only Events call it.
func (l *Listener) Go(f func(ctx context.Context)) { l.tasks.Go(f) }

// Close ends the subscription. It returns when all goroutines have ended, or ctx is over.
func (l *Listener) Close(ctx context.Context) error {
	l.mu.Lock()
	l.disconnect()
	l.tasks.Stop(kit.ErrClosing) // under the mutex, or listen could make another connection in between
	l.mu.Unlock()
	return l.tasks.Wait(ctx)
}

// disconnect ends the present connection, which listen notices. l.mu is held. go-redis may wait for
// a connect that is in progress, so the connection is closed in a goroutine. After Close only
// listen has a connection that is left, and no connect.
func (l *Listener) disconnect() {
	if l.subscribed {
		l.subscribed, l.since, l.failure = false, time.Now(), locker.ErrNoAnswer
	}
	if pubsub := l.pubsub; pubsub != nil {
		l.pubsub = nil
		l.check.Stop()
		if !l.tasks.Go(func(context.Context) { _ = pubsub.Close() }) {
			_ = pubsub.Close()
		}
	}
}

// run keeps a connection open. A subscription that was confirmed and has ended at once is a failure, too: a
// proxy may do that each time.
func (l *Listener) run(ctx context.Context) {
	pause := firstPause
	for {
		began := time.Now()
		if confirmed := l.listen(ctx); confirmed && time.Since(began) > longestPause {
			pause = firstPause
		}
		if !kit.Sleep(ctx, pause/2+rand.N(pause)) {
			return
		}
		pause = min(2*pause, longestPause)
	}
}

// listen reads one connection until it ends. It reports whether the subscription was confirmed.
func (l *Listener) listen(ctx context.Context) (confirmed bool) {
	pubsub := l.client.Subscribe(ctx, l.channel)
	l.connected(ctx, pubsub)
	defer func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.pubsub == pubsub {
			l.disconnect()
		}
	}()
	for {
		message, err := pubsub.Receive(ctx)
		if err != nil {
			l.failed(pubsub, err)
			return confirmed // go-redis has already tried another connection, and notified nobody
		}
		_, confirms := message.(*redis.Subscription)
		l.heard(pubsub, confirms)
		if confirms {
			confirmed = true
			l.events.Subscribed(ctx)
		}
		if m, ok := message.(*redis.Message); ok {
			l.events.Message(ctx, m.Payload)
		}
	}
}

func (l *Listener) connected(ctx context.Context, pubsub *redis.PubSub) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pubsub, l.unheard = pubsub, 0
	l.check = time.AfterFunc(checkEvery, func() { l.checkConn(pubsub) })
	if ctx.Err() != nil {
		l.disconnect()
	}
}

// failed notes why a connection has ended, unless this Listener has ended it.
func (l *Listener) failed(pubsub *redis.PubSub, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.pubsub == pubsub {
		l.failure = err
	}
}

func (l *Listener) heard(pubsub *redis.PubSub, confirms bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unheard = 0
	if confirms && l.pubsub == pubsub {
		l.subscribed, l.since = true, time.Now()
	}
}

// checkConn pings a connection while somebody waits, and replaces it when it doesn't answer. A
// connection that was cut silently looks like one on which nothing happens.
func (l *Listener) checkConn(pubsub *redis.PubSub) {
	waiting := l.events.Waiting()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.pubsub != pubsub { // it has ended
		return
	}
	if l.unheard++; !waiting {
		l.unheard = 0
	}
	switch {
	case l.unheard == maxUnheard:
		l.disconnect()
		return
	case l.unheard > 0:
		l.tasks.Go(func(ctx context.Context) { // the answer is seen by the next check
			ctx, cancel := context.WithTimeout(ctx, pingLimit)
			defer cancel()
			_ = pubsub.Ping(ctx)
		})
	}
	l.check.Reset(checkEvery)
}
