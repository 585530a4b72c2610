package redlockbackend

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// listener is the subscription on one server. It starts with the first wait, in a goroutine that ends with close.
type listener struct {
	turns  *turns
	server int
	client *redis.Client

	life context.Context // until close
	end  context.CancelFunc
	all  sync.WaitGroup // goroutines: run, and short-lived ones that it starts

	mu     sync.Mutex
	pubsub *redis.PubSub // the present connection; nil: none
	up     bool          // the server has confirmed the subscription
	watch  *time.Timer   // looks at it
	quiet  int           // looks since something was heard
}

const (
	watchEvery    = 5 * time.Second
	watchPatience = 3 // looks without a sound, two of them after a ping, until a connection counts as dead
	firstPause    = 10 * time.Millisecond
	longestPause  = time.Second
)

func newListener(t *turns, server int, client *redis.Client) *listener {
	l := &listener{turns: t, server: server, client: client}
	l.life, l.end = context.WithCancel(context.Background())
	return l
}

func (l *listener) start() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.life.Err() == nil {
		l.all.Go(l.run)
	}
}

func (l *listener) stands() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.up
}

// close ends the subscription. It returns when its goroutines have ended, or ctx is over.
func (l *listener) close(ctx context.Context) error {
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

// hangUp ends the present connection, which listen notices. Closing may have to wait for a dial that is under way.
func (l *listener) hangUp() {
	l.up = false
	if pubsub := l.pubsub; pubsub != nil {
		l.pubsub = nil
		if l.watch != nil {
			l.watch.Stop()
		}
		l.all.Go(func() { _ = pubsub.Close() })
	}
}

// run keeps a connection open.
func (l *listener) run() {
	pause := firstPause
	for {
		if stood := l.listen(); stood {
			pause = firstPause
		}
		if !sleep(l.life, pause/2+rand.N(pause)) {
			return
		}
		pause = min(2*pause, longestPause)
	}
}

// listen hears what comes on one connection until that ends. It reports whether the subscription had stood.
func (l *listener) listen() (stood bool) {
	pubsub := l.client.Subscribe(l.life, l.turns.channel)
	l.mu.Lock()
	l.pubsub, l.quiet = pubsub, 0
	if l.life.Err() != nil {
		l.hangUp()
	} else {
		l.watch = time.AfterFunc(watchEvery, func() { l.look(pubsub) })
	}
	l.mu.Unlock()
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
		l.mu.Lock()
		l.quiet = 0
		if _, ok := message.(*redis.Subscription); ok && l.pubsub == pubsub {
			l.up, stood = true, true
		}
		l.mu.Unlock()
		switch m := message.(type) {
		case *redis.Subscription:
			l.turns.poke()
		case *redis.Message:
			l.turns.told(l.server, m.Payload)
		}
	}
}

// look looks after a connection while somebody waits: one that was cut silently looks like one on which nothing happens.
func (l *listener) look(pubsub *redis.PubSub) {
	waiting := l.turns.waiting()
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
			ctx, cancel := context.WithTimeout(l.life, 2*time.Second)
			defer cancel()
			_ = pubsub.Ping(ctx)
		})
	}
	l.watch.Reset(watchEvery)
}
