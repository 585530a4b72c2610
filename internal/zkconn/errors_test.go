package zkconn

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"testing"

	"github.com/go-zookeeper/zk"
)

// An error that matches a context's says that the caller gave up.
func TestOverdue(t *testing.T) {
	for _, err := range []error{
		context.DeadlineExceeded, context.Canceled, os.ErrDeadlineExceeded, &net.OpError{Op: "dial", Err: os.ErrDeadlineExceeded},
		fmt.Errorf("dial: %w", context.DeadlineExceeded),
	} {
		if got := Overdue(err); got == nil || errors.Is(got, context.DeadlineExceeded) || errors.Is(got, context.Canceled) {
			t.Errorf("Overdue(%v) = %v", err, got)
		}
	}
	for _, err := range []error{nil, syscall.ECONNREFUSED, zk.ErrNoNode} {
		if got := Overdue(err); !errors.Is(got, err) {
			t.Errorf("Overdue(%v) = %v", err, got)
		}
	}
}

// What says nothing about a request but that its connection ended is asked about again; what a
// server says is an answer.
func TestBroken(t *testing.T) {
	for _, err := range []error{
		zk.ErrConnectionClosed, zk.ErrNoServer, zk.ErrClosing, zk.ErrSessionExpired, zk.ErrSessionMoved,
		fmt.Errorf("auth: %w", zk.ErrConnectionClosed),
	} {
		if !Broken(err) {
			t.Errorf("Broken(%v) = false, want true", err)
		}
	}
	for _, err := range []error{
		nil, zk.ErrNoNode, zk.ErrNodeExists, zk.ErrNotEmpty, zk.ErrNoAuth, zk.ErrBadVersion, zk.ErrInvalidACL, zk.ErrAPIError,
		zk.ErrShortBuffer, errors.New("unknown error: -6"),
	} {
		if Broken(err) {
			t.Errorf("Broken(%v) = true, want false", err)
		}
	}
}
