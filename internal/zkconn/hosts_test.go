package zkconn

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker"
)

func TestAddresses(t *testing.T) {
	got, err := WithPorts([]string{"a", "b:1", "10.0.0.1", "::1", "[::2]", "[::3]:4"})
	want := []string{"a:2181", "b:1", "10.0.0.1:2181", "[::1]:2181", "[::2]:2181", "[::3]:4"}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("WithPorts = %q, %v, want %q", got, err, want)
	}
	for _, bad := range [][]string{nil, {""}, {":1"}, {"a:"}, {"a:1", ""}, {"a/b"}, {"a b"}, {"zk://a"}, {"a:b:c"}, {"a,b"}, {"u@a"}} {
		if got, err := WithPorts(bad); !errors.Is(err, locker.ErrOption) {
			t.Errorf("WithPorts(%q) = %q, %v, want ErrOption", bad, got, err)
		}
	}
}

// A round fails what waits to be sent and makes go-zookeeper pause for a second. That is right only
// when the servers have been away for a while.
func TestRoundsOfServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		over := false
		hosts := newHosts([]string{"a", "b", "c"}, func() bool { return over })
		next := func(want string, wantRound bool) {
			t.Helper()
			if server, round := hosts.Next(); server != want || round != wantRound {
				t.Errorf("Next = %q, %v, want %q, %v", server, round, want, wantRound)
			}
		}
		for range 3 {
			next("a", false)
			next("b", false)
			next("c", false)
		}
		time.Sleep(2*time.Second + 1)
		next("a", true)
		next("b", false)
		next("c", false)
		next("a", true)
		hosts.Connected() // which proves nothing yet
		next("b", false)
		next("c", false)
		next("a", true)
		hosts.answered()
		next("b", false) // the one after that which it was connected with
		next("c", false)
		next("a", false)
		next("b", false)
		over = true // go-zookeeper looks only at the end of a round whether it was closed
		next("c", true)
	})
}

// A server that confirms the session and hangs up is no better than one that can't be reached.
func TestGreetedAndHungUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hosts := newHosts([]string{"a"}, func() bool { return false })
		dial := func() (pause time.Duration, round bool) {
			_, round = hosts.Next()
			pause = hosts.pause()
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
		hosts.answered()
		if pause, round := dial(); pause != 0 || round {
			t.Errorf("after an answer: a pause of %v, the end of a round: %v", pause, round)
		}
	})
}

// Of several servers, each is tried before there is a pause, whatever the ones before have said.
func TestFirstRoundHasNoPause(t *testing.T) {
	hosts := newHosts([]string{"a", "b", "c"}, func() bool { return false })
	for i := range 4 {
		hosts.Next()
		if pause := hosts.pause(); (pause > 0) != (i == 3) {
			t.Errorf("dial %d: a pause of %v", i+1, pause)
		}
		hosts.Connected()
	}
}

func newHosts(servers []string, over func() bool) *hosts {
	h := &hosts{isOver: over}
	_ = h.Init(servers)
	return h
}
