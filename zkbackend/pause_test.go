package zkbackend_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker/zkbackend"
)

// A server that confirms the session and hangs up is no better than one that can't be reached.
func TestGreetedAndHungUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hosts := zkbackend.Hosts([]string{"a"}, func() bool { return false })
		dial := func() (pause time.Duration, round bool) {
			_, round = hosts.Next()
			pause = zkbackend.Pause(hosts)
			time.Sleep(pause)
			hosts.Connected()
			return pause, round
		}
		if pause, _ := dial(); pause != 0 {
			t.Errorf("a pause of %v before the first dial", pause)
		}
		began, dials := time.Now(), 0
		for round := false; !round; dials++ {
			var pause time.Duration
			if pause, round = dial(); pause == 0 && !round {
				t.Fatalf("no pause before dial %d", dials+2)
			}
		}
		if took := time.Since(began); took > 2500*time.Millisecond || dials > 100 {
			t.Errorf("the first round ended after %v and %d dials", took, dials)
		}
		zkbackend.Answered(hosts)
		if pause, round := dial(); pause != 0 || round {
			t.Errorf("after an answer: a pause of %v, the end of a round: %v", pause, round)
		}
	})
}

// Of several servers, each is tried before there is a pause, whatever the ones before have said.
func TestFirstRoundHasNoPause(t *testing.T) {
	hosts := zkbackend.Hosts([]string{"a", "b", "c"}, func() bool { return false })
	for i := range 4 {
		hosts.Next()
		if pause := zkbackend.Pause(hosts); (pause > 0) != (i == 3) {
			t.Errorf("dial %d: a pause of %v", i+1, pause)
		}
		hosts.Connected()
	}
}

// storm counts requests of one kind, and serves them after so many, so that a client that asks without a pause lets time go on.
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

// Servers that hang up on the credentials, or on every request, are dialled with pauses, and calls return.
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
