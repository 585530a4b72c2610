package zkbackend_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker/zkbackend"
)

// storm counts requests of one kind, and serves them after so many, so that a client that asks
// without a pause lets time go on.
func storm(v verdict, ops ...string) (script func(r request) verdict, count func() int) {
	n := 0
	return func(r request) verdict {
		for _, op := range ops {
			if r.op == op && n < 300 {
				n++
				return v
			}
		}
		return serve
	}, func() int { return n }
}

// Servers that hang up on the credentials, or on every request, are dialled with pauses, and calls
// return.
func TestServerThatHangsUpAgainAndAgain(t *testing.T) {
	for what, ops := range map[string][]string{
		"on the credentials": {"auth"},
		"on every request":   {"multi", "exists", "get", "delete"},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer(t)
				l := open(t, s, zkbackend.WithDigest("joe", "secret"))
				lease := acquire(t, l, "a")
				script, count := storm(hangUp, ops...)
				s.scripts(script)
				s.sever()
				time.Sleep(time.Second) // time is what this is about
				s.mu.Lock()
				if n := count(); n > 40 {
					t.Errorf("%d connections in a second", n)
				}
				s.mu.Unlock()
				lost(t, ttl, lease, "not renewed")
				s.scripts(nil)
				release(t, acquire(t, l, "a"))
			})
		})
	}
}

// A session that has been served moves at once.
func TestSessionMovesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		l := open(t, s, zkbackend.WithDigest("joe", "secret"))
		lease := acquire(t, l, "a")
		for range 3 {
			began := time.Now()
			s.sever()
			if err := lease.Renew(t.Context()); err != nil {
				t.Errorf("Renew = %v, want nil", err)
			}
			if took := time.Since(began); took != 0 {
				t.Errorf("Renew took %v, want no pause", took)
			}
		}
		release(t, lease)
	})
}
