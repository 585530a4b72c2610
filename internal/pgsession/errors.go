package pgsession

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fencedlock/locker/driver/kit"
)

var (
	// ErrNoAnswer says that the time was up before the outcome of a statement was known.
	ErrNoAnswer = errors.New("no answer in time")

	// ErrEnded says that the connection has ended. The cause comes wrapped with it.
	ErrEnded = errors.New("the connection has ended")

	// ErrClosed is the cause when this side has ended the connection.
	ErrClosed = errors.New("it was closed")

	// ErrPooler says that a pooler between here and the server gives each transaction another connection.
	ErrPooler = errors.New("a pooler gives each transaction another connection")
)

// SQLSTATE codes of the server's errors.
const (
	codePermission  = "42501"
	codeUnsupported = "22023"
)

// Says reports whether err is an error of the server with one of these codes.
func Says(err error, codes ...string) bool {
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

// Refused reports whether err says that the server has refused a statement, and the connection goes on.
func Refused(err error) bool {
	return errors.As(err, new(*pgconn.PgError)) && !errors.Is(err, ErrEnded)
}

// Ended reports whether err is the end of the connection.
func Ended(err error) bool { return errors.Is(err, ErrEnded) }

// Overdue makes ErrNoAnswer of the end of a time limit that is not the caller's: an error that matches the error of a context
// says that the caller gave up.
func Overdue(err error) error {
	switch {
	case !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, kit.ErrNotSent):
		return fmt.Errorf("%w: %w", ErrNoAnswer, kit.ErrNotSent)
	case errors.Is(err, ErrNoAnswer):
		return ErrNoAnswer
	}
	return fmt.Errorf("%w (%s)", ErrNoAnswer, err.Error()) // the error of a time limit of our own
}
