package zkbackend

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/fencedlock/locker/internal/zkconn"
)

// interrupted are the errors of go-zookeeper that say nothing about a request but that its connection, or its session,
// came to an end: it may have been carried out. ErrSessionMoved is a server's: the session is on another connection.
var interrupted = []error{zk.ErrConnectionClosed, zk.ErrNoServer, zk.ErrClosing, zk.ErrSessionExpired, zk.ErrSessionMoved, errNoServer}

// broken reports whether err is that of a connection, and not a server's answer.
func broken(err error) bool {
	return slices.ContainsFunc(interrupted, func(e error) bool { return errors.Is(err, e) })
}

// transient reports whether err says only that no server could be asked.
func transient(err error) bool { return broken(err) || errors.Is(err, zkconn.ErrNoAnswer) }

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
