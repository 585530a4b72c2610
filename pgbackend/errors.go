package pgbackend

import (
	"errors"

	"github.com/fencedlock/locker/internal/pgsession"
)

// These errors come wrapped in a [*locker.Error]. Test for them with [errors.Is].
var (
	// ErrCollision says that one Locker was asked for two names that have the same key in the
	// database. The second is refused, because the Locker would wait for itself.
	ErrCollision = errors.New("another name in use has the same key")

	// ErrLockTable says that the lock table, which all clients of the server share, is too small:
	// the locks of this Locker would take more than half of it, or it is half full when a Locker is
	// opened, or it is full. The text names the setting to raise.
	ErrLockTable = errors.New("the server's lock table is too small")

	// ErrPooler says that a pooler between here and the server gives each transaction another
	// connection, as PgBouncer does in transaction and statement mode. Session locks would be left
	// on other clients' connections there.
	ErrPooler = pgsession.ErrPooler
)

var (
	errResigned    = errors.New("nothing more is asked for on this connection")
	errNotNeeded   = errors.New("it was closed")
	errSilent      = errors.New("the server has been silent for too long")
	errOtherServer = errors.New("another server has taken over")
	errOver        = errors.New("it is not held here any more")
)

// SQLSTATE codes of the server's errors.
const (
	codePermission      = "42501"
	codeReadOnly        = "25006"
	codeNoTable         = "42P01"
	codeNoColumn        = "42703"
	codeNoSchema        = "3F000"
	codeDuplicate       = "42710"
	codeDuplicateTable  = "42P07"
	codeDuplicateSchema = "42P06"
	codeUnique          = "23505"
	codeTooMany         = "53300"
	codeNoMemory        = "53200"
	codeCancelled       = "57014"
	codeLockWait        = "55P03"
	codeDeadlock        = "40P01"
	codeInternal        = "XX000" // "could not open relation with OID"
)
