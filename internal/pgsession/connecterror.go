package pgsession

import (
	"errors"
	"net"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// connectError is pgx' errors about a connection that couldn't be made, in one line. pgx has a line
// for each address and way; where TLS is preferred that is two for each address, mostly with the
// same reason, or with the first saying that there is no TLS.
type connectError struct {
	error
	text string
}

func (e *connectError) Error() string { return e.text }
func (e *connectError) Unwrap() error { return e.error }

// ofEachWay returns the errors that pgx has joined in err: one for each way in which it tried an address.
func ofEachWay(err error) []error {
	var connect *pgconn.ConnectError
	if !errors.As(err, &connect) {
		return []error{err}
	}
	err = connect.Unwrap()
	if joined, ok := err.(interface{ Unwrap() []error }); ok { //nolint:errorlint // the outermost is meant
		return joined.Unwrap()
	}
	return []error{err}
}

// inOneLine makes a connectError of what is wrong with each address or host.
func inOneLine(c *pgconn.Config, failures []error) error {
	var all []error
	for _, err := range failures {
		all = append(all, ofEachWay(err)...)
	}
	var lines []string
	for _, err := range all {
		for line := range strings.Lines(reason(err)) {
			if line = strings.TrimSpace(line); !slices.Contains(lines, line) {
				lines = append(lines, line)
			}
		}
	}
	const noTLS = "server refused TLS connection"
	if other := slices.DeleteFunc(slices.Clone(lines), func(line string) bool { return strings.HasSuffix(line, noTLS) }); len(other) > 0 {
		lines = other
	}
	text := "no connection for user " + c.User + " to database " + c.Database + ": " + strings.Join(lines, "; ")
	return &connectError{errors.Join(failures...), text}
}

// reason is what is wrong with one address.
func reason(err error) string {
	text := err.Error()
	where, what, found := strings.Cut(text, "): ")
	if !found {
		return text
	}
	if addr, host, _ := strings.Cut(where, " ("); strings.HasPrefix(addr, host) {
		where = addr
	} else {
		where += ")"
	}
	var op *net.OpError
	if errors.As(err, &op) && strings.HasPrefix(what, "dial error: ") {
		what = op.Err.Error()
	}
	return where + ": " + what
}
