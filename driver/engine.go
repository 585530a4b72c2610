package driver

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/fencedlock/locker"
)

// Config is what [New] needs to know of a backend besides its Driver.
type Config struct {
	Backend  string         // the backend's name in errors
	TTL      time.Duration  // of leases that don't ask for one; 0: they never end by time
	Features locker.Feature // what the driver understands of a request
}

// New makes a Locker of a driver. It starts nothing until the Locker is used, and nothing runs
// while it holds and waits for no lock. Closing the Locker closes the driver.
func New(d Driver, cfg Config) locker.Locker {
	return &engine{
		driver:  d,
		cfg:     cfg,
		queues:  make(map[string]*queue),
		leases:  make(map[*lease]struct{}),
		fires:   unarmed,
		closing: make(chan struct{}),
		drained: make(chan struct{}),
		down:    make(chan struct{}),
	}
}

// engine is the Locker. What its files do with it: locker.go opens and counts, queue.go and
// acquire.go get leases, keeper.go renews and ends them, cleanup.go removes what they leave,
// close.go ends it all.
type engine struct {
	driver Driver
	cfg    Config

	mu     sync.Mutex // guards all below and the leases; no method of the driver is called under it
	queues map[string]*queue
	leases map[*lease]struct{} // from before their first request until their removal is confirmed

	moments heap
	timer   *time.Timer
	fires   time.Duration // when timer fires, on Go's clock since epoch, which may stand still; unarmed: it doesn't

	removals []*lease // whose removal is due, in order
	removers int      // goroutines at work on removals

	cancels []func() // what unlock calls

	closed      bool
	closeBy     time.Time     // when the time for closing is up
	abandoned   bool          // Close has run out of time: failed removals are not tried again
	unconfirmed int           // removals that were given up because of that
	obstacle    error         // what came of the last try of one of them
	busy        int           // goroutines that may call the driver
	closing     chan struct{} // closed when Close begins
	drained     chan struct{} // closed when Close has begun and nothing is left to do
	down        chan struct{} // closed when Close is done
	closeErr    error
}

func (e *engine) Guarantees() locker.Guarantees { return e.driver.Guarantees() }

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
	return req, nil
}

// enter counts a goroutine that is going to call the driver. It is false once the locker is closed.
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

// unlock releases the mutex, and then ends the contexts of acquisitions that have been lost under
// it: that calls methods of a caller's context.
func (e *engine) unlock() {
	cancels := e.cancels
	e.cancels = nil
	e.mu.Unlock()
	for _, cancel := range cancels {
		cancel()
	}
}

func (e *engine) fail(op, name string, err error) *locker.Error {
	return &locker.Error{Op: op, Backend: e.cfg.Backend, Name: name, Err: err}
}

// callerGone is the error of a caller's context that is over.
type callerGone struct{ err, cause error }

// ContextError is the error of a context that is over, and matches its cause as well; nil while it
// isn't over. It is for what a backend does for a caller outside of a [Driver]: an Opener says with
// it that the caller gave up.
func ContextError(ctx context.Context) error {
	// Never under the engine's mutex, and nor any other method of a caller's context: that may be
	// the context of a lease of this very locker, whose Err takes the mutex.
	if err := ctx.Err(); err != nil {
		return &callerGone{err, context.Cause(ctx)}
	}
	return nil
}

func (c *callerGone) Error() string {
	if c.cause == nil || errors.Is(c.err, c.cause) {
		return c.err.Error()
	}
	return c.err.Error() + ": " + c.cause.Error()
}

func (c *callerGone) Unwrap() []error { return []error{c.err, c.cause} }

// ranOut tells a context whose time is up from one that was cancelled, whatever the cause of either
// says.
func ranOut(over error) bool {
	var c *callerGone
	return errors.As(over, &c) && errors.Is(c.err, context.DeadlineExceeded)
}
