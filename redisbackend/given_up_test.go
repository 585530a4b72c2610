package redisbackend_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/redisbackend"
)

// A caller that gives up a request has its goroutine back at once, and Release removes what may
// come of the request: without a tombstone that is asked for, because there is only one copy, and
// the script makes one by itself if it finds nothing.
func TestGivenUpRequest(t *testing.T) {
	f := newFake(t)
	d := f.ownDriver(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	f.does(func([]string) string { cancel(); return silence })
	l := newLock(t, d, time.Minute)
	begin := time.Now()
	if _, err := l.Acquire(ctx); err == nil || errors.Is(err, locker.ErrHeld) {
		t.Errorf("Acquire = %v, want an error that is not ErrHeld", err)
	}
	if took := time.Since(begin); took > redisbackend.MessageTimeout*9/10 {
		t.Errorf("Acquire returned %v after its context ended", took)
	}
	f.answers(gone)
	if err := l.Release(t.Context()); err != nil || !slices.Equal(f.called(), []string{"release"}) {
		t.Errorf("Release = %v, and sent %q, want one release", err, f.called())
	}
}

// A message from the queue goes on when its caller gives up, and may be repeated after that
// caller's clean-up.
func TestGivenUpInQueue(t *testing.T) {
	for try := 1; !givesUpInQueue(t); try++ {
		if try == 5 {
			t.Fatal("a request that was given up while its message went on was released as if no copy could arrive")
		}
	}
}

// givesUpInQueue is false if the request was not released as one that may arrive late. That is
// right if this process was so slow that the request came when a lane was free, and didn't wait.
func givesUpInQueue(t *testing.T) bool {
	f := newFake(t)
	d := f.driver(t, nil)
	arrived, again := make(chan string, 10), make(chan string, 10)
	first, cleaned := make(chan struct{}), make(chan struct{}) // closed to answer the first request, and the others
	var n atomic.Int32
	f.does(func(command []string) string {
		owner := command[8]
		switch {
		case strings.HasPrefix(describe(command), "release"):
			return gone
		case isClosed(cleaned):
			again <- owner
			return granted
		case n.Add(1) == 1:
			arrived <- owner
			<-first
			return granted
		}
		arrived <- owner
		<-cleaned
		return hangUp
	})
	var all sync.WaitGroup
	defer all.Wait()
	answer := sync.OnceFunc(func() { close(cleaned) })
	defer answer()
	acquire := func(ttl time.Duration) {
		l := newLock(t, d, ttl)
		all.Go(func() { _, _ = l.Acquire(t.Context()) })
	}
	for range redisbackend.LanesWidth {
		acquire(time.Minute)
		<-arrived
	}
	free := time.AfterFunc(100*time.Millisecond, func() { close(first) }) // when the next request waits
	defer free.Stop()
	l := newLock(t, d, 500*time.Millisecond)
	if _, err := l.Acquire(t.Context()); err == nil {
		t.Errorf("Acquire = nil, and the server has not answered")
	}
	if err := l.Release(t.Context()); err != nil {
		t.Errorf("Release = %v, want nil", err)
	}
	if calls := f.called(); calls[len(calls)-1] != "release late" {
		return false
	}
	answer()
	for owner := <-arrived; <-again != owner; { // the request is repeated indeed
	}
	return true
}

func isClosed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
