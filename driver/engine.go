package driver

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fencedlock/locker"
)

// Config is what [New] must know of a backend in addition to its Driver.
type Config struct {
	TTL      time.Duration  // of leases that don't ask for one; 0: they never end by time
	Features locker.Feature // the options of a request that the driver understands

	// ObeysContext declares that each call of Acquire and Release returns at once when its context
	// ends, whatever the service, the network and the client library do. The context of Acquire
	// ends when the caller gives up, or when the Locker is closed. That of Release ends only at its
	// deadline.
	//
	// The engine then makes the first call of Acquire, and a holder's call of Release, on the
	// goroutine of the caller. Without the declaration it makes them on goroutines of its own, and
	// no caller waits for a driver that hangs. That costs a few microseconds for each call.
	//
	// It is declared for the driver that New gets, including what that driver passes calls on to.
	// So a Driver around another one doesn't inherit it. The conformance suite fails a driver that
	// declares it and hangs.
	ObeysContext bool
}

// New makes a Locker of a driver. It starts nothing before the Locker is used, and nothing runs
// while the Locker neither holds nor waits for a lock. Closing the Locker closes the driver.
func New(d Driver, cfg Config) locker.Locker {
	return &engine{
		driver:  d,
		backend: d.Guarantees().Backend,
		cfg:     cfg,
		queues:  make(map[subject]*queue),
		leases:  make(map[*lease]struct{}),
		counts:  newCounts(),
		fires:   unarmed,
		asides:  make(chan struct{}, maxAside),

		removers:  removers{untilConfirmed: maxRemovers},
		inSilence: removers{untilConfirmed: removersInDoubt},

		closing: make(chan struct{}),
		drained: make(chan struct{}),
		down:    make(chan struct{}),
	}
}

// engine is the Locker. engine.go counts who uses the driver. queue.go, acquire.go, attempt.go and
// grant.go get leases, timer.go and renewal.go renew them, minhold.go keeps them when they were
// released early, removal.go removes what they leave, and close.go ends it all. calls.go decides
// how the driver is called. events.go notes what happens, observe.go delivers it, and stats.go
// counts it.
type engine struct {
	driver  Driver
	backend string        // its name, for errors and events
	asides  chan struct{} // an element for each call of aside.go that is under way
	cfg     Config
	tracers atomic.Pointer[[]*observer] // nil: there are none

	mu     sync.Mutex // guards everything below and the leases; not held during a call of the driver
	queues map[subject]*queue
	leases map[*lease]struct{} // from before their first request until their removal is confirmed

	moments heap
	timer   *time.Timer
	fires   time.Duration // when timer fires, on Go's clock since epoch; unarmed: it doesn't

	inSilence removers // of removals whose last call had no answer (removal.silent)
	removers  removers // of all others

	cancels []func() // for unlock to call

	calls    uint64 // of Acquire so far: the id of the last one
	counts   counts
	recorder recorder

	closed      bool
	closeBy     time.Time     // when the time for closing is up
	abandoned   bool          // Close has run out of time: failed removals are not tried again
	unconfirmed int           // removals that were given up because of that
	obstacle    error         // the last error of one of them
	busy        int           // callers and goroutines that may call the driver, and calls of Release
	closing     chan struct{} // closed when Close begins
	drained     chan struct{} // closed when Close has begun and nothing is left to do
	down        chan struct{} // closed when Close is done
	closeErr    error
}

func (e *engine) Guarantees() locker.Guarantees { return e.driver.Guarantees() }

// String is for logs. The rest is guarded by the mutex, which package fmt doesn't take.
func (e *engine) String() string { return "locker on " + e.backend }

// resolve turns name and options into a request that the driver understands.
func (e *engine) resolve(name string, opts []locker.Option) (locker.Request, error) {
	req, err := locker.Resolve(name, opts...)
	if err != nil {
		return req, err
	}
	if missing := req.Features &^ e.cfg.Features; missing != 0 {
		return req, fmt.Errorf("%w here: %v", errors.ErrUnsupported, missing)
	}
	if req.TTL == 0 {
		req.TTL = e.cfg.TTL
	}
	if req.MinHold > 0 && req.TTL > 0 {
		req.TTL = max(req.TTL, minHoldTTL(req.MinHold))
	}
	if req.Holder == "" {
		req.Holder = locker.DefaultHolder()
	}
	return req, nil
}

// enter counts a caller or a goroutine that is going to call the driver. It returns false once the
// locker is closed.
func (e *engine) enter() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return false
	}
	e.busy++
	return true
}

func (e *engine) leave() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.busy--
	e.checkDrained()
}

// unlock releases the mutex, and then ends the contexts of the acquisitions that were lost under
// it. It does so afterwards because a cancel calls methods of a caller's context.
func (e *engine) unlock() {
	cancels := e.cancels
	e.cancels = nil
	e.mu.Unlock()
	for _, cancel := range cancels {
		cancel()
	}
}

func (e *engine) fail(op, name string, err error) *locker.Error {
	return &locker.Error{Op: op, Backend: e.backend, Name: name, Err: err}
}
