//go:build unix

package redis

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance/step"
	"github.com/fencedlock/locker/integration/internal/itest"
)

// A waiter whose Locker can't subscribe any more has no place in the queue, and says why when its time is
// over. It gets its place when the Locker can subscribe again.
func TestRedisUnsubscribed(t *testing.T) {
	b := NewBench(t)
	const user, password = "deaf", "open-sesame"
	b.Service.all(t, "acl", "setuser", user, "reset", "on", ">"+password, "~*", "&*", "+@all")
	t.Cleanup(func() { b.Service.all(t, "acl", "deluser", user) })
	l := step.CloseAtEnd(t, itest.OpenURL(t, itest.Changed(b.Service.URL, func(u *url.URL) { u.User = url.UserPassword(user, password) })))
	b.Service.all(t, "acl", "setuser", user, "resetchannels")
	lease := step.Acquire(t, step.CloseAtEnd(t, b.Service.Open(t)), b.Name, locker.WithTTL(itest.LongTTL))

	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
	defer cancel()
	_, err := l.Acquire(ctx, b.Name)
	if !errors.Is(err, locker.ErrHeld) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Acquire = %v, want ErrHeld and DeadlineExceeded", err)
	}
	for _, part := range []string{"no place in the queue", "NOPERM", "&locker:grants:*"} {
		if err != nil && !strings.Contains(err.Error(), part) {
			t.Errorf("Acquire = %v, want that it says %q", err, part)
		}
	}
	if n := b.Service.Waiters(t, b.Name); n != 0 {
		t.Errorf("%d waiters have a place in the queue, want none", n)
	}

	waiter := step.StartAcquire(t, l, b.Name)
	b.Service.all(t, "acl", "setuser", user, "allchannels")
	step.Eventually(t, itest.ShortWait, func() error { return b.Service.queued(t, b.Name, 1) })
	step.Release(t, lease)
	step.Release(t, waiter.Granted(t, itest.ShortWait))
}
