package zkbackend_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/go-zookeeper/zk"

	"github.com/fencedlock/locker/zkbackend"
)

// What says nothing about a request but that its connection ended is asked about again; what a server says is an answer.
func TestBroken(t *testing.T) {
	for _, err := range []error{
		zk.ErrConnectionClosed, zk.ErrNoServer, zk.ErrClosing, zk.ErrSessionExpired, zk.ErrSessionMoved,
		fmt.Errorf("auth: %w", zk.ErrConnectionClosed),
	} {
		if !zkbackend.Broken(err) {
			t.Errorf("Broken(%v) = false, want true", err)
		}
	}
	for _, err := range []error{
		nil, zk.ErrNoNode, zk.ErrNodeExists, zk.ErrNotEmpty, zk.ErrNoAuth, zk.ErrBadVersion, zk.ErrInvalidACL, zk.ErrAPIError,
		zk.ErrShortBuffer, errors.New("unknown error: -6"),
	} {
		if zkbackend.Broken(err) {
			t.Errorf("Broken(%v) = true, want false", err)
		}
	}
}

// Neither has a failure that takes time to be one.
func TestNoTimeLimitOfAContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		l := open(t, s)
		s.mu.Lock()
		s.muted = true
		s.mu.Unlock()
		_, err := l.Acquire(context.WithoutCancel(t.Context()), "a")
		if err == nil || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) || !contains(err, "no connection") {
			t.Errorf("Acquire on a server that is silent = %v, want an error that isn't the caller's", err)
		}
		s.mu.Lock()
		s.muted = false
		s.mu.Unlock()
		s.sever()
	})
}
