package zkconn

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver/kit"
)

// Why a session is over, or a request has no answer.
var (
	ErrExpired  = errors.New("the servers have ended the session")
	ErrOver     = errors.New("the session is over")
	ErrRefused  = errors.New("a server refuses the credentials")
	ErrSilent   = errors.New("the servers have answered nothing on the session, or no write, for longer than its timeout")
	ErrNoServer = errors.New("no connection with a server")

	errHungUp  = errors.New("doesn't answer as ZooKeeper: it has no leader, or too many connections")
	errForeign = errors.New("the answer is not one of ZooKeeper")
)

// ShortError says that the servers grant a shorter session than was asked for.
type ShortError struct{ Granted time.Duration }

func (e *ShortError) Error() string {
	return fmt.Sprintf("the servers grant a session timeout of %v only", e.Granted)
}

// interrupted are errors that say nothing about a request but that its connection, or its session,
// has ended: it may have been executed. ErrSessionMoved is a server's: the session is on another
// connection.
var interrupted = []error{
	zk.ErrConnectionClosed, zk.ErrNoServer, zk.ErrClosing, zk.ErrSessionExpired, zk.ErrSessionMoved, ErrNoServer,
}

// Broken reports whether err is a connection's, and not a server's answer.
func Broken(err error) bool {
	return slices.ContainsFunc(interrupted, func(e error) bool { return errors.Is(err, e) })
}

// Transient reports whether err says only that no server could be asked.
func Transient(err error) bool { return Broken(err) || errors.Is(err, locker.ErrNoAnswer) }

// Overdue replaces the error of one of our own time limits by locker.ErrNoAnswer, because to callers a
// context's error means that they gave up.
func Overdue(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return locker.ErrNoAnswer
	}
	return kit.Overdue(err)
}

// overdueAt is Overdue, and names the server where an error of its connection doesn't.
func overdueAt(addr string, err error) error {
	switch over := Overdue(err); {
	case errors.Is(over, locker.ErrNoAnswer):
		return fmt.Errorf("%w from %s", locker.ErrNoAnswer, addr)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("%s hangs up", addr)
	}
	return err
}

// Ignore returns nil for an error that doesn't matter, and err otherwise.
func Ignore(err error, targets ...error) error {
	if slices.ContainsFunc(targets, func(target error) bool { return errors.Is(err, target) }) {
		return nil
	}
	return err
}
