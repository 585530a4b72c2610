package zkbackend_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/zkbackend"
)

// The timeout that the servers grant is private.
func TestGrantedTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		s.longest = 4 * time.Second
		l := open(t, s)
		_, err := l.Acquire(t.Context(), "a", locker.WithTTL(4*time.Second))
		if !errors.Is(err, locker.ErrOption) || !contains(err, "longest session") {
			t.Errorf("Acquire with a TTL that needs a longer session = %v, want ErrOption", err)
		}
		lease := acquire(t, l, "a", locker.WithTTL(2800*time.Millisecond))
		short := acquire(t, l, "b")

		// What is not known when a Locker is opened is refused by the first acquisition, and
		// remembered.
		s.mu.Lock()
		s.longest = 3500 * time.Millisecond
		s.mu.Unlock()
		for range 2 {
			_, err = l.Acquire(t.Context(), "c", locker.WithTTL(2500*time.Millisecond))
			if !errors.Is(err, locker.ErrOption) {
				t.Errorf("Acquire with a TTL that needs a longer session = %v, want ErrOption", err)
			}
		}

		// A server that grants less when the client connects again: the session will end too early
		// for earlier leases.
		s.sever()
		lost(t, soon, lease, "3.5s only")
		if err := short.Err(); err != nil {
			t.Errorf("Err of a lease whose session is granted enough = %v, want nil", err)
		}
		release(t, acquire(t, l, "a"))
		release(t, short)
	})
}

func TestOpenRefusesTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		s.longest = 10 * time.Second
		for _, ttl := range []time.Duration{time.Millisecond, time.Hour} {
			l, err := s.new(zkbackend.WithDefaultTTL(ttl))
			if !errors.Is(err, locker.ErrOption) {
				t.Errorf("New with a TTL of %v = %v, %v, want ErrOption", ttl, l, err)
			}
		}
		// The tick is half of the shortest session, or a twentieth of the longest: 500 ms here.
		l, err := s.new()
		if err != nil {
			t.Fatalf("New = %v", err)
		}
		defer l.Close()
		if want := zkbackend.GuaranteesAt(500 * time.Millisecond).Expiry; l.Guarantees().Expiry != want {
			t.Errorf("guarantees %v, want %v", l.Guarantees().Expiry, want)
		}
		lease := acquire(t, l, "a")
		if d := time.Until(lease.Deadline()); d < 8*time.Second || d > 8500*time.Millisecond {
			t.Errorf("by default the deadline is %v away, want the longest TTL that can be had, 8.5s", d)
		}
		release(t, lease)
	})
}
