package redisbackend_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/redisbackend"
)

// queuedOnce has an acquisition take a place in the queue, gives it up, and returns its owner. The first
// copy of its request is not answered, and may come late.
func queuedOnce(t *testing.T, f *fake, d driver.Driver) (owner string) {
	t.Helper()
	var mu sync.Mutex
	f.does(func(command []string) string {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case strings.HasPrefix(describe(command), "release"):
			return gone
		case command[11] == "": // it doesn't listen yet
			return held
		}
		if owner != command[8] {
			owner = command[8]
			return hangUp
		}
		return queued
	})
	for end := time.Now().Add(10 * time.Second); ; {
		l := newLock(t, d, time.Minute)
		_, err := l.Acquire(t.Context())
		if err := l.Release(t.Context()); err != nil {
			t.Fatalf("Release = %v, want nil", err)
		}
		if errors.Is(err, driver.ErrQueued) {
			return owner
		}
		if time.Now().After(end) {
			t.Fatalf("Acquire = %v, want a place in the queue", err)
		}
		time.Sleep(time.Millisecond)
	}
}

// A grant to an acquisition that is over is a ghost, which nobody else releases. A grant to an owner
// that this Locker has never drawn may be the live lease of a copy of this process, which listens on
// the same channel.
func TestGhostsOfOwnOwnersAreReleased(t *testing.T) {
	f := newFake(t)
	client := redis.NewClient(&redis.Options{Addr: f.addr, ContextTimeoutEnabled: true})
	defer client.Close()
	d := redisbackend.NewDriver(client, true)
	former := queuedOnce(t, f, d)
	released := make(chan string, 10)
	f.does(func(command []string) string {
		released <- command[8]
		return gone
	})
	foreign := driver.NewOwner()
	f.publish(t, foreign+" 42 7 locker:{a}")
	f.publish(t, former+" 43 7 locker:{a}")
	if owner := <-released; owner != former {
		t.Errorf("the lease of an owner of somebody else was released")
	}
	if err := d.Close(context.Background()); err != nil { // waits for what is under way
		t.Errorf("Close = %v, want nil", err)
	}
	if calls := f.called(); !slices.Equal(calls, []string{"release"}) {
		t.Errorf("two grants were heard, of which one is a ghost, and sent was %q, want one release", calls)
	}
}

// A grant to an acquisition whose removal has failed once is released at once, and not with the next try.
func TestGrantDuringARemovalIsReleased(t *testing.T) {
	f := newFake(t)
	client := redis.NewClient(&redis.Options{Addr: f.addr, ContextTimeoutEnabled: true})
	defer client.Close()
	d := redisbackend.NewDriver(client, true)
	defer func() { _ = d.Close(context.Background()) }()
	owners := make(chan string, 100)
	f.does(func(command []string) string {
		switch {
		case strings.HasPrefix(describe(command), "release"):
			return "-LOADING Redis is loading the dataset in memory\r\n"
		case command[11] == "": // it doesn't listen yet
			return held
		}
		owners <- command[8]
		return queued
	})
	var l driver.Lock
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		l = newLock(t, d, time.Minute)
		_, err := l.Acquire(t.Context())
		if errors.Is(err, driver.ErrQueued) {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("Acquire = %v, want a place in the queue", err)
		}
	}
	if err := l.Release(t.Context()); err == nil {
		t.Fatal("Release = nil, and the server refuses it")
	}
	owner, released := <-owners, make(chan []string, 10)
	f.does(func(command []string) string {
		released <- command[8:10]
		return gone
	})
	f.publish(t, owner+" 42 7 locker:{a}")
	select {
	case got := <-released:
		if got[0] != owner {
			t.Errorf("the lease of %s was released, want the one of %s", got[0], owner)
		}
		if got[1] != "60000" {
			t.Errorf("its tombstone is kept for %s ms, want the TTL, a minute", got[1])
		}
	case <-time.After(5 * time.Second):
		t.Error("the lease that was granted is not released before the next try")
	}
	if err := l.Release(t.Context()); err != nil {
		t.Errorf("Release when the server is back = %v, want nil", err)
	}
}

// What is known of acquisitions that are over is limited, in number and in time.
func TestFormerOwnersAreLimited(t *testing.T) {
	var f redisbackend.FormerOwners
	for i := range redisbackend.MostFormer {
		f.Add(fmt.Sprint(i), time.Minute)
	}
	f.Add("0", time.Minute) // again
	if f.Len() > redisbackend.MostFormer || !f.Has("1") {
		t.Errorf("%d owners are known, want %d", f.Len(), redisbackend.MostFormer)
	}
	f.Add("one more", time.Minute)
	if f.Len() > redisbackend.MostFormer || f.Has("0") || !f.Has("one more") {
		t.Errorf("%d owners are known, want that the last has taken the place of the first", f.Len())
	}
	f.Add("over", -time.Hour)
	if f.Has("over") {
		t.Error("an owner is known whose time is over")
	}
}

// An acquisition with a long TTL is known until its time is over, however many others have come and gone.
func TestLongFormerOwnerOutlastsOthers(t *testing.T) {
	var f redisbackend.FormerOwners
	f.Add("long", time.Hour)
	for i := range 2 * redisbackend.MostFormer {
		f.Add(fmt.Sprint(i), -time.Hour)
	}
	if !f.Has("long") || f.Len() > redisbackend.MostFormer {
		t.Errorf("the long one is known: %v, and so are %d in all, want it, and at most %d", f.Has("long"), f.Len(), redisbackend.MostFormer)
	}
}
