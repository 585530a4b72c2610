package membackend_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/membackend"
)

// party is a Locker and the network between it and its service.
type party struct {
	locker.Locker
	*membackend.Link
}

func newParty(t *testing.T, s *membackend.Server) party {
	link := membackend.NewLink()
	l := membackend.New(membackend.WithServer(s), membackend.WithLink(link), membackend.WithDefaultTTL(ttl))
	t.Cleanup(func() { _ = l.Close() })
	return party{l, link}
}

// inBubble runs a test with a service and two Lockers in a bubble.
func inBubble(t *testing.T, f func(t *testing.T, s *membackend.Server, a, b party)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := membackend.NewServer()
		f(t, s, newParty(t, s), newParty(t, s))
	})
}

// acquired is the result of a wait in the background.
type acquired struct {
	lease locker.Lease
	err   error
	at    time.Time
}

// wait starts an Acquire and returns when it is queued.
func wait(t *testing.T, l locker.Locker, name string) <-chan acquired {
	result := make(chan acquired, 1)
	go func() {
		lease, err := l.Acquire(t.Context(), name)
		result <- acquired{lease, err, time.Now()}
	}()
	synctest.Wait()
	return result
}

func (a acquired) must(t *testing.T) locker.Lease {
	t.Helper()
	if a.err != nil {
		t.Fatalf("Acquire = %v", a.err)
	}
	return a.lease
}

// wantOver checks that a lease is lost, with a cause.
func wantOver(t *testing.T, l locker.Lease, cause error) {
	t.Helper()
	select {
	case <-l.Done():
	default:
		t.Errorf("Done is not closed; Err = %v", l.Err())
	}
	if err := l.Err(); !errors.Is(err, locker.ErrLost) || !errors.Is(err, cause) {
		t.Errorf("Err = %v, want %v because of %v", err, locker.ErrLost, cause)
	}
}

func wantAlive(t *testing.T, l locker.Lease) {
	t.Helper()
	if err := l.Err(); err != nil {
		t.Errorf("Err = %v, want nil", err)
	}
}
