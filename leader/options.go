package leader

import (
	"fmt"
	"time"

	"github.com/fencedlock/locker"
)

// Option changes a candidate. An invalid value is an error that matches [locker.ErrOption].
type Option func(*config)

type config struct {
	acquire   []locker.Option
	rest      time.Duration
	backoff   struct{ min, max time.Duration }
	overstay  overstay
	observers []Observer
	err       error // of the first option with an invalid value
}

type overstay struct {
	after time.Duration
	f     func() // nil: nobody wants to know
}

// longestPause is as good as for ever, and can be doubled without an overflow.
const longestPause = 100 * 365 * 24 * time.Hour

func newConfig(opts []Option) config {
	c := config{rest: time.Second}
	c.backoff.min, c.backoff.max = 100*time.Millisecond, 10*time.Second
	for _, opt := range opts {
		opt(&c)
	}
	return c
}

func (c *config) fail(format string, args ...any) {
	if c.err == nil {
		c.err = fmt.Errorf("%w: "+format, append([]any{locker.ErrOption}, args...)...)
	}
}

// WithIdentity sets what the candidate says of itself to [Current] and [Watch], for example the
// address at which the leader is found. It is a [locker.WithHolder], with the same rules; without it,
// it is HOST/PID/PROGRAM.
func WithIdentity(text string) Option {
	return func(c *config) { c.acquire = append(c.acquire, locker.WithHolder(text)) }
}

// WithTTL sets how long others wait for a leader that has died, and how long a leader may be out of
// touch before its term ends. It is a [locker.WithTTL]; without it, it is the locker's default.
func WithTTL(d time.Duration) Option {
	return func(c *config) { c.acquire = append(c.acquire, locker.WithTTL(d)) }
}

// WithRest sets the pause after a term that ended without a loss, before the candidate stands again:
// d ± half of it, by default 1s. It lets others in where the service keeps no order. 0 is no pause.
func WithRest(d time.Duration) Option {
	return func(c *config) {
		if d < 0 {
			c.fail("rest of %v: want a time, such as 1s, or 0", d)
		}
		c.rest = min(d, longestPause)
	}
}

// WithBackoff sets the pause after an error of the service, and after a term that was lost: first
// shortest ± half of it, then twice as long each time, and never longer than longest. It begins again
// with a term that ends without a loss, or lasts for longest. By default it goes from 100ms to 10s.
func WithBackoff(shortest, longest time.Duration) Option {
	return func(c *config) {
		if shortest <= 0 || longest < shortest {
			c.fail("back-off from %v to %v: want positive times, such as 100ms and 10s", shortest, longest)
		}
		c.backoff.min, c.backoff.max = min(shortest, longestPause), min(longest, longestPause)
	}
}

// WithOverstay calls f, on a goroutine of its own, when lead hasn't returned d after the end of its
// context: once for each such term. Others may lead by then. f may write a log, dump goroutines, or
// end the process with os.Exit, which is the only way to end a function that doesn't return.
func WithOverstay(d time.Duration, f func()) Option {
	return func(c *config) {
		if d < 0 || f == nil {
			c.fail("overstay of %v: want a time that isn't negative, such as 10s, and a function", d)
		}
		c.overstay = overstay{d, f}
	}
}

// WithObserver attaches o, which is notified of what the candidate does. Several observers are
// notified on goroutines of their own, at the same time; one that is given twice is two observers.
func WithObserver(o Observer) Option {
	return func(c *config) {
		if o == nil {
			c.fail("the observer is nil")
		}
		c.observers = append(c.observers, o)
	}
}
