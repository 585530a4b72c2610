package zkbackend_test

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/zkbackend"
)

func TestAddresses(t *testing.T) {
	got, err := zkbackend.WithPorts([]string{"a", "b:1", "10.0.0.1", "::1", "[::2]", "[::3]:4"})
	want := []string{"a:2181", "b:1", "10.0.0.1:2181", "[::1]:2181", "[::2]:2181", "[::3]:4"}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("WithPorts = %q, %v, want %q", got, err, want)
	}
	for _, bad := range [][]string{nil, {""}, {":1"}, {"a:"}, {"a:1", ""}, {"a/b"}, {"a b"}, {"zk://a"}, {"a:b:c"}, {"a,b"}, {"u@a"}} {
		if got, err := zkbackend.WithPorts(bad); !errors.Is(err, locker.ErrOption) {
			t.Errorf("WithPorts(%q) = %q, %v, want ErrOption", bad, got, err)
		}
	}
}

// A round fails what waits to be sent and makes go-zookeeper pause for a second. That is right only when the servers have
// been away for a while.
func TestRoundsOfServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		over := false
		hosts := zkbackend.Hosts([]string{"a", "b", "c"}, func() bool { return over })
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
		zkbackend.Answered(hosts)
		next("b", false) // the one after that which it was connected with
		next("c", false)
		next("a", false)
		next("b", false)
		over = true // go-zookeeper looks only at the end of a round whether it was closed
		next("c", true)
	})
}
