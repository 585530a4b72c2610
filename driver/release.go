package driver

import "errors"

// wasLost reports whether a lease that has ended was lost, and not released.
func (l *lease) wasLost() bool { return !l.removal.ofRelease }

var (
	errReleaseSilent      = errors.New("no answer from the service; the removal goes on")
	errReleaseUnconfirmed = errors.New("not confirmed by the service; the removal goes on")
)

// releaseResult is what Release returns for a lease that has ended.
func (l *lease) releaseResult() error {
	switch {
	case l.wasLost():
		return l.err()
	case l.removal.confirmedFree, l.removal.deferred:
		return nil
	case l.removal.lastErr == nil:
		return l.e.fail("release", l.req.Name, errReleaseSilent)
	}
	return l.e.fail("release", l.req.Name, &withCause{errReleaseUnconfirmed, l.removal.lastErr})
}
