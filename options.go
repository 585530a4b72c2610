package locker

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Option changes one acquisition. What else a caller may ask of a locker is an option, so that [Locker] stays small.
//
// With an invalid value the acquisition fails before anything is sent, or at the first request if only
// the service can judge the value: the error matches [ErrOption]. With an option that the backend can't
// serve, such as [WithTTL] on files, the error matches [errors.ErrUnsupported].
//
// A decorator that adds options must not write into its caller's slice: slices.Clip(opts) before append makes a copy.
type Option func(*Request)

// Request is the sum of the options of one acquisition. Users write options; lockers and decorators
// read a Request through [Resolve]. Requests can be compared with ==, as package middleware does to
// find options that it doesn't know. So no field will be a slice, a map or a function.
type Request struct {
	Name      string
	TTL       time.Duration // zero: the locker's default
	NoWait    bool          // answer ErrHeld instead of waiting
	NoRenewal bool          // let the lease expire after its TTL unless the holder renews it by hand
	MaxHold   time.Duration // end the lease after this long, renewed or not; zero: no bound
	MinHold   time.Duration // give the lock back not before the lease is this old; zero: at once
	Holder    string        // what the holder says of itself, see WithHolder; empty: DefaultHolder, which an engine fills in
	Trace     string        // W3C traceparent of the caller's context, see ContextWithTrace; an engine fills it in
	Slot      int           // 0: the lock; 1 to MaxPermits: the slot of a permit, see AcquirePermit; LineSlot: the line for permits

	// Features is what a driver must understand to serve this request. An engine refuses what its driver doesn't
	// know with [errors.ErrUnsupported], so that an option which is newer than a driver fails instead of being
	// ignored. An option that needs a driver's help sets its bit here.
	Features Feature

	err error // of the first option with an invalid value
}

// Feature is a set of abilities that a [Request] asks of a driver.
type Feature uint32

// The features.
const (
	FeatureTTL   Feature = 1 << 0 // WithTTL: leases end by themselves after a time that the caller chooses
	FeatureSlots Feature = 1 << 1 // AcquirePermit: a name has slots, which are locks that no name has
)

func (f Feature) String() string {
	var names []string
	for _, known := range []struct {
		bit  Feature
		name string
	}{{FeatureTTL, "a TTL"}, {FeatureSlots, "permits"}} {
		if f&known.bit != 0 {
			names = append(names, known.name)
			f &^= known.bit
		}
	}
	if f != 0 || names == nil {
		names = append(names, fmt.Sprintf("features %#x", uint32(f)))
	}
	return strings.Join(names, ", ")
}

// WithTTL sets the time after which a lease ends by itself when it isn't renewed: how long the
// others wait for a holder that died, and how long a holder may be out of touch before it loses the
// lock. The TTL is never shortened; where a service counts in coarser units it is rounded up. It
// must be positive, and within the bounds that the documentation of the backend states: otherwise
// the error matches [ErrOption].
func WithTTL(d time.Duration) Option {
	return func(r *Request) {
		if d <= 0 {
			r.fail("TTL %v: want a positive time, such as 30s", d)
		}
		r.TTL = d
		r.Features |= FeatureTTL
	}
}

// NoWait makes Acquire return [ErrHeld] at once when another holder has the lock, or when somebody
// waits for it: another caller of this locker or, on a backend that keeps an order, any other. It is
// an option so that [Do] can take it. For Acquire, [TryAcquire] is the same in one word.
func NoWait() Option { return func(r *Request) { r.NoWait = true } }

// WithoutRenewal leaves the lease to expire after its TTL unless the holder calls Renew. By default leases are
// renewed in the background until they are released.
func WithoutRenewal() Option { return func(r *Request) { r.NoRenewal = true } }

// WithMaxHold ends the lease after d at the latest, renewed or not, counted from the return of Acquire. So a
// holder that is stuck can't keep the lock without end. Such a lease is lost with [ErrMaxHold] as the cause. d
// must be positive.
func WithMaxHold(d time.Duration) Option {
	return func(r *Request) {
		if d <= 0 {
			r.fail("longest hold %v: want a positive time, such as 10m", d)
		}
		r.MaxHold = d
	}
}

// maxMinHold is the longest minimum hold. A TTL that is longer than it doesn't overflow.
const maxMinHold = 100 * 365 * 24 * time.Hour

// WithMinHold keeps the lock for d at least, counted from the return of Acquire. It is for work that is
// started in many places at about the same time and must be done once, as a job of cron: without it, the lock
// of a short job is free again when the last of them asks. Half of the period between two starts is a good
// value for d.
//
// A Release before that returns nil at once, and the lease ends at once: its Err matches
// [ErrReleased], and its token must not be used any more. The lock stays held, and is given back in
// the background when d is over. It is renewed until then unless the lease is [WithoutRenewal].
// [Leases] shows it as [StateKept]. Close waits for the end of d, and a lease that Close ends is kept as
// well. A lease that is lost isn't kept.
//
// Where leases end by time, the TTL is at least 1.1 × d, whatever [WithTTL] says; a
// service that can't serve such a TTL refuses it with [ErrOption]. So a process that dies leaves
// the lock held until d is over, with two exceptions. If the service's answer took longer than a
// tenth of d, the lock is free earlier by the difference. And where a lock ends with its process or
// connection ([Expiry]), it is free when the process dies.
//
// d must be positive, less than 100 years, and not longer than the time of [WithMaxHold].
func WithMinHold(d time.Duration) Option {
	return func(r *Request) {
		if d <= 0 || d > maxMinHold {
			r.fail("minimum hold %v: want a positive time of less than 100 years, such as 30s", d)
		}
		r.MinHold = d
	}
}

func (r *Request) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: "+format, append([]any{ErrOption}, args...)...)
	}
}

// Resolve checks a name and adds up options. Its errors match [ErrName] or [ErrOption]. It does no I/O.
func Resolve(name string, opts ...Option) (Request, error) {
	if err := ValidName(name); err != nil || len(opts) == 0 {
		return Request{Name: name}, err
	}
	r := &Request{Name: name}
	for _, opt := range opts {
		opt(r)
	}
	if r.MaxHold > 0 && r.MinHold > r.MaxHold {
		r.fail("minimum hold %v: want at most the longest hold, %v", r.MinHold, r.MaxHold)
	}
	if r.Slot != 0 {
		r.Features |= FeatureSlots
		if r.Slot < LineSlot || r.Slot > MaxPermits {
			r.fail("slot %d: want from 1 to %d, or %d for the line", r.Slot, MaxPermits, LineSlot)
		}
	}
	return *r, r.err
}

// MaxName is the longest name of a lock, in bytes.
const MaxName = 200

// ValidName returns nil if a lock may be called name: 1 to [MaxName] bytes of UTF-8 without control
// characters. Names are compared byte by byte; they are never normalised, lower-cased or cut, and no character
// in them is special. The rule is the same on every backend. The error matches [ErrName].
func ValidName(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("%w: empty", ErrName)
	case len(name) > MaxName:
		return fmt.Errorf("%w: want at most %d bytes, not %d", ErrName, MaxName, len(name))
	case !utf8.ValidString(name):
		return fmt.Errorf("%w: %q is not UTF-8", ErrName, name)
	}
	if i := strings.IndexFunc(name, unicode.IsControl); i >= 0 {
		return fmt.Errorf("%w: %q has a control character at byte %d", ErrName, name, i)
	}
	return nil
}
