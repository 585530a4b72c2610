package pgsession

import (
	"errors"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

var (
	// ErrEnded says that the connection has ended. The cause comes wrapped with it.
	ErrEnded = errors.New("the connection has ended")

	// ErrClosed is the cause when this side has closed the connection.
	ErrClosed = errors.New("it was closed")

	// ErrPooler says that a pooler between here and the server gives each transaction another
	// connection.
	ErrPooler = errors.New("a pooler gives each transaction another connection")
)

// SQLSTATE codes of the server's errors.
const (
	codePermission  = "42501"
	codePassword    = "28P01"
	codeNoDatabase  = "3D000"
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

// Hints reports whether err is an error of the server whose hint contains a text.
func Hints(err error, text string) bool {
	var e *pgconn.PgError
	return errors.As(err, &e) && strings.Contains(e.Hint, text)
}

// Refused reports whether err says that the server has refused a statement, and the connection goes
// on.
func Refused(err error) bool {
	return errors.As(err, new(*pgconn.PgError)) && !errors.Is(err, ErrEnded)
}

// Ended reports whether err is the end of the connection.
func Ended(err error) bool { return errors.Is(err, ErrEnded) }
