package zkconn

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
)

var ErrNoAnswer = errors.New("no answer in time")

// Overdue makes ErrNoAnswer of the end of a time limit, which is none of the caller's: an error that matches that of a
// context says that the caller gave up.
func Overdue(err error) error {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) || errors.Is(err, os.ErrDeadlineExceeded) {
		return ErrNoAnswer
	}
	return err
}

// OverdueAt is Overdue, and names the server where an error of its connection doesn't.
func OverdueAt(addr string, err error) error {
	switch over := Overdue(err); {
	case errors.Is(over, ErrNoAnswer):
		return fmt.Errorf("%w from %s", ErrNoAnswer, addr)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("%s hangs up", addr)
	}
	return err
}

// Ignore makes nil of an error that doesn't matter.
func Ignore(err, target error) error {
	if errors.Is(err, target) {
		return nil
	}
	return err
}
