package zkbackend_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/zkbackend"
)

func (s *server) sessionCount() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.sessions)
}

// There is a session for each TTL in use, and a few at most.
func TestSessionsOfALocker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		l := open(t, s)
		var leases []locker.Lease
		for i := range zkbackend.MaxSessions - 1 {
			d := ttl + time.Duration(i+1)*time.Second
			leases = append(leases, acquire(t, l, "a", locker.WithTTL(d)))
			release(t, leases[i])
			leases[i] = acquire(t, l, d.String(), locker.WithTTL(d))
			leases = leases[:i+1]
		}
		if n := s.sessionCount(); n != zkbackend.MaxSessions {
			t.Errorf("%d sessions for %d TTLs", n, zkbackend.MaxSessions)
		}
		lease := acquire(t, l, "a") // so that the first session is in use as well
		if _, err := l.Acquire(t.Context(), "b", locker.WithTTL(time.Minute)); !errors.Is(err, locker.ErrTooManyTTLs) || errors.Is(err, locker.ErrOption) || !contains(err, "8") {
			t.Errorf("Acquire with one TTL too many = %v, want ErrTooManyTTLs", err)
		} else if outcome := locker.OutcomeOf(err); outcome != locker.OutcomeError { // it passes
			t.Errorf("OutcomeOf of one TTL too many = %q, want \"error\"", outcome)
		}
		release(t, leases[3]) // whose session nobody needs now
		next := acquire(t, l, "b", locker.WithTTL(time.Minute))
		eventually(t, "the idle session is gone", func() bool { return s.sessionCount() == zkbackend.MaxSessions })
		for i, other := range leases {
			if err := other.Err(); i != 3 && err != nil {
				t.Errorf("Err = %v, want nil: its session is in use", err)
			}
		}
		release(t, next)
		release(t, lease)
		release(t, acquire(t, l, "c", locker.WithTTL(ttl+time.Microsecond))) // rounded up to a millisecond
		release(t, acquire(t, l, "c", locker.WithTTL(ttl+time.Millisecond))) // the same
		eventually(t, "no session more for the same TTL", func() bool { return s.sessionCount() == zkbackend.MaxSessions })
	})
}

// To look at locks, and to take one away, works on any session, also when so many TTLs are in use that
// none can be opened.
func TestLookingNeedsNoSessionOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		l := open(t, s)
		var leases []locker.Lease
		for i := range zkbackend.MaxSessions { // for the last one the idle session of the default TTL ends
			leases = append(leases, acquire(t, l, fmt.Sprint(i), locker.WithTTL(ttl+time.Duration(i+1)*time.Second)))
		}
		eventually(t, "the idle session is gone", func() bool { return s.sessionCount() == zkbackend.MaxSessions })
		for range 20 { // so that several sessions are used
			if got, err := locker.Inspect(t.Context(), l, "0", 0); err != nil || got.Holder == nil || got.Holder.Token != leases[0].Token() {
				t.Fatalf("Inspect = %+v, %v, want the holder", got, err)
			}
		}
		if token, err := locker.CurrentToken(t.Context(), l, "1"); err != nil || token != leases[1].Token() {
			t.Errorf("CurrentToken = %v, %v, want %v", token, err, leases[1].Token())
		}
		if names := listNames(t, l, ""); len(names) != len(leases) {
			t.Errorf("List shows %q, want %d locks", names, len(leases))
		}
		if _, err := locker.Break(t.Context(), l, "2", leases[2].Token(), locker.Breach{By: "bob", AtOnce: true}); err != nil {
			t.Errorf("Break = %v", err)
		}
	})
}

// What a session has left is removed on any other one, also when so many TTLs are in use that none can be
// opened.
func TestRemovalNeedsNoSessionOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		d, err := zkbackend.NewDriver(t.Context(), []string{s.addr}, zkbackend.WithTick(tick), zkbackend.WithDefaultTTL(ttl),
			zkbackend.WithDialer(s.dial))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = d.Close(context.Background()) }()
		granted := func(name string, d driver.Driver, ttl time.Duration) driver.Lock {
			l, err := d.Lock(locker.Request{Name: name, TTL: ttl}, func(error) {})
			if err == nil {
				_, err = l.Acquire(t.Context())
			}
			if err != nil {
				t.Fatal(err)
			}
			return l
		}
		left := granted("a", d, ttl+time.Minute)
		s.forget(s.lastSession()) // its node stays
		s.scripts(func(request) verdict { return hangUp })
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := left.Release(ctx); err == nil {
			t.Fatal("Release = nil, though nothing was answered")
		}
		s.scripts(nil)
		for i := range zkbackend.MaxSessions {
			granted(fmt.Sprint(i), d, ttl+time.Duration(i)*time.Second)
		}
		if err := left.Release(t.Context()); err != nil || len(s.children("a")) != 0 {
			t.Errorf("Release = %v, and %d nodes are left, want none", err, len(s.children("a")))
		}
	})
}

// A new session is opened when one has expired, and the leases of the old one are lost.
func TestExpiredSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		l := open(t, s)
		for range 3 {
			lease := acquire(t, l, "a", locker.WithoutRenewal())
			s.mu.Lock()
			s.endSession(s.last)
			s.mu.Unlock()
			lost(t, ttl/2, lease, "ended the session")
			if err := lease.Release(t.Context()); !errors.Is(err, locker.ErrLost) {
				t.Errorf("Release = %v, want ErrLost", err)
			}
		}
		release(t, acquire(t, l, "a"))
	})
}

// Credentials are given on every connection, the one on which they are given first included.
func TestCredentials(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		s.once("auth", hangUp)
		l := open(t, s, zkbackend.WithDigest("joe", "secret"), zkbackend.WithAuth("ip", ""))
		release(t, acquire(t, l, "a"))
		s.asked()
		s.sever()
		release(t, acquire(t, l, "a"))
		auths := 0
		for _, op := range s.asked() {
			if op == "auth" {
				auths++
			}
		}
		if auths != 2 {
			t.Errorf("after a connect %d credentials were given, want 2", auths)
		}
	})
}

// A Locker that can't work says so when it is opened, soon, and without secrets.
func TestOpenFails(t *testing.T) {
	fails := func(what string, says string, servers []string, opts ...zkbackend.Option) {
		t.Helper()
		began := time.Now()
		l, err := zkbackend.New(t.Context(), servers, opts...)
		var e *locker.Error
		if err == nil || !errors.As(err, &e) || !contains(err, says) || contains(err, "secret") || contains(err, "\n") {
			t.Errorf("%s: New = %v, %v, want an error in one line that speaks of %q", what, l, err, says)
		}
		if took := time.Since(began); took > 15*time.Second {
			t.Errorf("%s: New took %v", what, took)
		}
	}
	fails("nobody listens", "refused", []string{"127.0.0.1:1", "127.0.0.1:2"})
	fails("no such host", "no-such-host", []string{"no-such-host.invalid"})
	fails("a chroot that can't be", "chroot", []string{"127.0.0.1:1"}, zkbackend.WithChroot("a"))
	fails("a negative tick", "tick", []string{"127.0.0.1:1"}, zkbackend.WithTick(-1))
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		s.scripts(func(r request) verdict {
			if r.op == "multi" {
				return refuse
			}
			return serve
		})
		fails("a missing permission", "permission", []string{s.addr}, zkbackend.WithDialer(s.dial), zkbackend.WithDigest("joe", "secret"))
		s.muted = true
		fails("a server that says nothing", "doesn't answer", []string{s.addr}, zkbackend.WithDialer(s.dial))
	})
}
