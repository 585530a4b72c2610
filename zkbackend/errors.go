package zkbackend

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"
)

// interrupted are the errors of go-zookeeper that say nothing about a request but that its connection, or its session,
// came to an end: it may have been carried out. ErrSessionMoved is a server's: the session is on another connection.
var interrupted = []error{zk.ErrConnectionClosed, zk.ErrNoServer, zk.ErrClosing, zk.ErrSessionExpired, zk.ErrSessionMoved, errNoServer}

// broken reports whether err is that of a connection, and not a server's answer.
func broken(err error) bool {
	return slices.ContainsFunc(interrupted, func(e error) bool { return errors.Is(err, e) })
}

// transient reports whether err says only that no server could be asked.
func transient(err error) bool { return broken(err) || errors.Is(err, errNoAnswer) }

var errNoAnswer = errors.New("no answer in time")

// overdue makes errNoAnswer of the end of a time limit, which is none of the caller's: an error that matches that of a
// context says that the caller gave up.
func overdue(err error) error {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) || errors.Is(err, os.ErrDeadlineExceeded) {
		return errNoAnswer
	}
	return err
}

// overdueAt is overdue, and names the server where an error of its connection doesn't.
func overdueAt(addr string, err error) error {
	switch over := overdue(err); {
	case errors.Is(over, errNoAnswer):
		return fmt.Errorf("%w from %s", errNoAnswer, addr)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("%s hangs up", addr)
	}
	return err
}

// shortError says that the servers grant less than was asked.
type shortError struct{ granted time.Duration }

func (e *shortError) Error() string {
	return fmt.Sprintf("the servers grant a session timeout of %v only", e.granted)
}

// explain adds what to do to the errors that an operator can mend.
func explain(err error) error {
	if errors.Is(err, zk.ErrNoAuth) {
		return fmt.Errorf("a permission is missing on the nodes of the chroot, or on those of the locks: %w", err)
	}
	return err
}

// ignore makes nil of an error that doesn't matter.
func ignore(err, target error) error {
	if errors.Is(err, target) {
		return nil
	}
	return err
}
