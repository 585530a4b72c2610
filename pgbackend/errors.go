package pgbackend

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fencedlock/locker/driver/kit"
)

// Test for these with [errors.Is]; they come wrapped in a [*locker.Error].
var (
	// ErrCollision says that one Locker was asked for two names that have the same key in the database. The second is refused, because
	// to wait for it would be to wait for oneself.
	ErrCollision = errors.New("another name in use has the same key")

	// ErrLockTable says that the lock table, which all clients of the server share, is half full or would be by the locks of this
	// Locker. The text names the setting to raise.
	ErrLockTable = errors.New("the server's lock table is too small")

	// ErrPooler says that a pooler between here and the server gives each transaction another connection, as PgBouncer does in
	// transaction and statement mode. Session locks would be left on connections of others there.
	ErrPooler = errors.New("a pooler gives each transaction another connection")
)

var (
	errNoAnswer   = errors.New("no answer in time")
	errConnection = errors.New("the connection has ended")
	errClosed     = errors.New("it was closed")
	errRetired    = errors.New("it gave way to the connection of another TTL")
	errSilent     = errors.New("nothing was heard for too long")
	errOver       = errors.New("it is not held here any more")
)

// SQLSTATE codes of errors that are dealt with.
const (
	codePermission      = "42501"
	codeReadOnly        = "25006"
	codeNoTable         = "42P01"
	codeNoSchema        = "3F000"
	codeDuplicate       = "42710"
	codeDuplicateTable  = "42P07"
	codeDuplicateSchema = "42P06"
	codeUnique          = "23505"
	codeTooMany         = "53300"
	codeNoMemory        = "53200"
	codeUnsupported     = "22023"
	codeCancelled       = "57014"
	codeLockWait        = "55P03"
	codeInternal        = "XX000" // "could not open relation with OID"
)

// says reports whether err is an error of the server with one of these codes.
func says(err error, codes ...string) bool {
	var e *pgconn.PgError
	if !errors.As(err, &e) {
		return false
	}
	for _, code := range codes {
		if e.Code == code {
			return true
		}
	}
	return false
}

// failed reports whether err says that the server has refused a statement and the connection stands.
func failed(err error) bool {
	return errors.As(err, new(*pgconn.PgError)) && !errors.Is(err, errConnection)
}

// overdue makes errNoAnswer of the end of a time limit, which is none of the caller's: an error that matches that of a context says
// that the caller gave up.
func overdue(err error) error {
	switch {
	case !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, kit.ErrNotSent):
		return fmt.Errorf("%w: %w", errNoAnswer, kit.ErrNotSent)
	case errors.Is(err, errNoAnswer):
		return errNoAnswer
	}
	return fmt.Errorf("%w (%s)", errNoAnswer, err.Error()) // which may be that of a time limit of our own
}

// isEnd reports whether err is the end of the connection.
func isEnd(err error) bool { return errors.Is(err, errConnection) }
