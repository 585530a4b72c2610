package conformance_test

import (
	"errors"
	"sync"
	"time"
)

// toyLink is the network of one client.
type toyLink struct {
	ahead time.Duration // how far the clock of the client is ahead
	ttl   time.Duration // with the flaw shortestTTL

	mu          sync.Mutex
	cut         bool
	drops       int
	there, back time.Duration
	broken      chan struct{}
	severed     bool
	conns       []*toyConn
}

// toyConn is a connection, which carries one request at a time.
type toyConn struct{ forgotten bool } // guarded by the link's mutex

func newToyLink() *toyLink { return &toyLink{broken: make(chan struct{})} }

// dial makes a connection.
func (k *toyLink) dial() *toyConn {
	on := new(toyConn)
	k.set(func() { k.conns = append(k.conns, on) })
	return on
}

// send delivers a request after its delay, and then the answer, unless one of them is lost.
func (k *toyLink) send(on *toyConn, s *toy, run func()) (answer <-chan error, broken <-chan struct{}) {
	k.mu.Lock()
	there, back, severed := k.there, k.back, k.broken
	k.mu.Unlock()
	result := make(chan error, 1)
	deliver := func() {
		if !k.passes(on, severed) {
			return
		}
		s.arrive(k, func() {
			var err error
			if s.down {
				err = errors.New("connection refused")
			} else {
				run()
			}
			if k.drop() {
				return
			}
			after(back, func() {
				if k.passes(on, severed) {
					result <- err
				}
			})
		})
	}
	after(there, deliver)
	return result, severed
}

func after(d time.Duration, f func()) {
	if d == 0 {
		f()
		return
	}
	time.AfterFunc(d, f)
}

func (k *toyLink) passes(on *toyConn, severed chan struct{}) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	select {
	case <-severed:
		return false
	default:
		return !k.cut && !on.forgotten
	}
}

func (k *toyLink) drop() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.drops == 0 {
		return false
	}
	k.drops--
	return true
}

func (k *toyLink) set(change func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	change()
}

func (k *toyLink) Cut()                            { k.set(func() { k.cut = true }) }
func (k *toyLink) Drop(n int)                      { k.set(func() { k.drops = n }) }
func (k *toyLink) Delay(there, back time.Duration) { k.set(func() { k.there, k.back = there, back }) }
func (k *toyLink) Heal()                           { k.set(func() { k.cut, k.drops, k.there, k.back = false, 0, 0, 0 }) }

func (k *toyLink) Forget() {
	k.set(func() {
		for _, on := range k.conns {
			on.forgotten = true
		}
	})
}

func (k *toyLink) isForgotten(on *toyConn) (forgotten bool) {
	k.set(func() { forgotten = on.forgotten })
	return forgotten
}

func (k *toyLink) Sever() {
	k.set(func() {
		close(k.broken)
		k.broken, k.severed = make(chan struct{}), true
	})
}

// stale is true once after Sever.
func (k *toyLink) stale() (severed bool) {
	k.set(func() { severed, k.severed = k.severed, false })
	return severed
}
