package locker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Breaker is a [Locker] that may be able to take a lock away from its holder. The function [Break] calls it.
type Breaker interface {
	// Break does what the function [Break] does. It is safe for concurrent use.
	Break(ctx context.Context, name string, token Token, b Breach) (Effect, error)
}

// Breach says who takes a lease away, why and how: see [Break]. A *Breach is also an error, which
// matches [ErrBroken]. errors.As finds it in the Err of the lease that was taken away, with By,
// Reason, At, AtOnce and Slot.
type Breach struct {
	By         string    // who: up to [MaxHolder] bytes of UTF-8 without control characters; empty: [DefaultHolder]
	Reason     string    // why: up to [MaxReason] bytes of UTF-8 without control characters
	At         time.Time // when; zero: now. It is kept in milliseconds
	AtOnce     bool      // let others in now; otherwise: no more renewals, and the lock passes on when the holder has released it
	WithOthers bool      // AtOnce may end other leases as well (postgres, see Effect); otherwise it is refused then
	Slot       int       // of a permit, from 1 on, or LineSlot, as Status shows it; 0: the lock called name is taken away
}

// MaxReason is the longest Reason of a [Breach], in bytes.
const MaxReason = 500

// Effect is what a [Break] has done.
type Effect struct {
	Others int           // other leases that have ended, because they were attached to the same connection (postgres, AtOnce)
	Within time.Duration // after this time at the latest the lock is free for others; 0: it is free now, or no time is known
}

// Break takes the lock called name away from the lease that has this token. It is for operators.
// The token is required, because the lock may have passed on since somebody looked; [Inspect] shows
// the token. With b.Slot, Break takes away the permit of that name which is a lease on that slot
// ([AcquirePermit]), or the line; [List] shows their tokens.
//
// By default nobody else gets the lock before the holder's lease has ended. The lease is marked on
// the service, and isn't renewed any more. Its holder notices the mark at once or at the next
// renewal ([Guarantees.Break]). Then the lease is lost, and the lock is released and passes on. If
// the holder is dead, stopped or cut off, the lock passes on when the TTL and the slack of
// [Guarantees.Expiry] are over.
//
// With b.AtOnce the lock passes on now. The holder notices that as it notices any other removal
// ([Guarantees.Revocation]), so for a while there may be two holders. AtOnce is for a holder that
// doesn't stop, or that is known to be dead while its TTL is long.
//
// The victim's lease is lost with an error that matches [ErrLost] and [ErrBroken] and contains b
// ([LossOf]: broken), unless it has reached its deadline before. After AtOnce a service may have
// forgotten b; then [LossOf] says revoked. The next lease has a larger token. But a storage accepts
// the victim's token until a later holder has claimed there with its larger token (package fence).
//
// A second Break of the same lease is no error. It changes nothing, and the first Breach stays;
// only a second Break with AtOnce lets others in now. A service may learn the token with the first
// renewal of the lease (postgres). Until then the error says that the service doesn't know the
// token yet.
//
// ctx covers the call, which also ends after 5 seconds; then the error matches [ErrNoAnswer], and no
// error of a context. Only the errors named here say that nothing has changed. After any other
// error, Break may be called again with the same token:
//
//   - [ErrNotHolder]: the lease with this token doesn't hold the lock, perhaps because an earlier
//     call has ended it, whose answer was lost;
//   - [ErrNoBreaker]: a backend that can't, or whose service can't; [Guarantees.Break] says so
//     before;
//   - [errors.ErrUnsupported]: b has a Slot, and the backend has no permits;
//   - [ErrName], [ErrOption]: an argument is invalid, or AtOnce would end other leases as well, and
//     WithOthers isn't set;
//   - [ErrClosed]: the locker is closed.
//
// The error is an [*Error].
func Break(ctx context.Context, l Locker, name string, token Token, b Breach) (Effect, error) {
	x, ok := AsLocker[Breaker](l)
	if !ok {
		return Effect{}, breakError(l, name, ErrNoBreaker)
	}
	return x.Break(ctx, name, token, b)
}

// The errors of [Break], and the error of the lease that was taken away.
var (
	// ErrBroken says that an operator has taken a lease away: see [Break]. What matches it contains a [*Breach].
	ErrBroken = errors.New("taken away by an operator")

	// ErrNotHolder says that the lease with this token doesn't hold the lock.
	ErrNotHolder = errors.New("the lease with this token doesn't hold the lock")

	// ErrNoBreaker says that a backend, or its service, can't take a lock away from its holder. It matches
	// [errors.ErrUnsupported].
	ErrNoBreaker = fmt.Errorf("%w here: nothing takes a lock away from its holder", errors.ErrUnsupported)
)

func breakError(l Locker, name string, err error) error {
	return &Error{Op: "break", Backend: l.Guarantees().Backend, Name: name, Err: err}
}

// ResolveBreach checks the arguments of [Break], and fills in what b leaves out. It is for authors of a [Breaker]. Its
// errors match [ErrName] or [ErrOption]. It does no I/O.
func ResolveBreach(name string, token Token, b Breach) (Breach, error) {
	if err := ValidName(name); err != nil {
		return b, err
	}
	if token <= 0 {
		return b, fmt.Errorf("%w: token %d: want the token of the lease that holds the lock, such as 1795221171926053", ErrOption, token)
	}
	if b.By == "" {
		b.By = DefaultHolder()
	}
	if b.At.IsZero() {
		b.At = time.Now()
	}
	b.At = b.At.Truncate(time.Millisecond).UTC()
	for _, text := range []struct {
		what, text string
		limit      int
	}{{"by", b.By, MaxHolder}, {"reason", b.Reason, MaxReason}} {
		if wrong := wrongText(text.text, text.limit); wrong != "" {
			return b, fmt.Errorf("%w: %s %.250q: %s", ErrOption, text.what, text.text, wrong)
		}
	}
	if b.Slot < LineSlot || b.Slot > MaxPermits {
		return b, fmt.Errorf("%w: slot %d: want from 1 to %d, or %d for the line", ErrOption, b.Slot, MaxPermits, LineSlot)
	}
	if b.At.Year() < 1970 || b.At.Year() > 9999 {
		return b, fmt.Errorf("%w: at %v: want a time from 1970 to 9999, or none for now", ErrOption, b.At)
	}
	return b, nil
}

// wrongText says what is wrong with a text for people, in words that don't repeat the text; "" if nothing is wrong.
func wrongText(text string, limit int) string {
	switch {
	case len(text) > limit:
		return fmt.Sprintf("want at most %d bytes, not %d", limit, len(text))
	case !utf8.ValidString(text):
		return "it is not UTF-8"
	case strings.ContainsFunc(text, unicode.IsControl):
		return "it has a control character"
	}
	return ""
}

func (b *Breach) Error() string {
	text := ErrBroken.Error()
	if b.By != "" {
		text = "taken away by " + b.By
	}
	switch {
	case b.Slot == LineSlot:
		text = "the line: " + text
	case b.Slot != 0:
		text = fmt.Sprintf("slot %d: %s", b.Slot, text)
	}
	if !b.At.IsZero() {
		text += " at " + b.At.UTC().Format(time.RFC3339)
	}
	if b.Reason != "" {
		text += ": " + b.Reason
	}
	return text
}

// Is reports whether target is [ErrBroken].
func (b *Breach) Is(target error) bool { return target == ErrBroken }

// Break takes the base off the token, and calls Break of the locker underneath.
func (b based) Break(ctx context.Context, name string, token Token, breach Breach) (Effect, error) {
	breach, err := ResolveBreach(name, token, breach)
	if err == nil && token <= b.base {
		err = fmt.Errorf("%w: tokens are larger than the base %d here", ErrNotHolder, b.base)
	}
	if err != nil {
		return Effect{}, breakError(b, name, err)
	}
	return Break(ctx, b.Locker, name, token-b.base, breach)
}
