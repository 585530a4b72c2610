package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os/exec"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/fencedlock/locker"
)

// The codes are in a range that commands rarely use: above curl's (to 99), apt-get and
// setlock (100, 111), below Python's 120, the codes of xargs, timeout and docker (123 to 125), the
// shells' 126 and 127, and the signals. The codes of sysexits(3), 64 to 78, would say the same things,
// but many commands return them.
const (
	exitOutput     = 1
	exitUsage      = 116
	exitService    = 117
	exitHeld       = 118
	exitLost       = 119
	exitNotStarted = 126
	exitNotFound   = 127
	exitSignal     = 128 // plus the signal's number
)

// exitTable is the table of the help text; the package doc and docs/command.md have the same.
const exitTable = `  116  usage: bad arguments, or a backend that can't do or doesn't promise what was asked
  117  the lock service failed
  118  the lock is held: --no-wait, --wait ran out, or a locker run around this one has it
  119  the lease was lost, and CMD was ended because of that
  126  CMD can't be started
  127  CMD was not found
`

// exitError ends the program with a code. Nothing is printed when err is nil.
type exitError struct {
	code int
	err  error
	// interrupt, if it isn't nil, ends this process by SIGINT instead. It returns only if that
	// fails.
	interrupt func()
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// report prints an error, if there is something to print, and returns the exit code. An error
// without a code comes from cobra and is an error of usage.
func report(stderr io.Writer, err error) int {
	if err == nil {
		return 0
	}
	var exit *exitError
	if !errors.As(err, &exit) {
		exit = &exitError{code: exitUsage, err: err}
	}
	if exit.err != nil {
		flush(sayAside(stderr, exit.err.Error()))
	}
	if exit.interrupt != nil {
		exit.interrupt()
	}
	return exit.code
}

// say prints one line for the user.
func say(w io.Writer, message string) {
	message = strings.ReplaceAll(strings.TrimPrefix(message, "locker: "), "\n", "; ")
	_, _ = fmt.Fprintf(w, "locker: %s\n", printable(message)) // a failure could not be reported anywhere
}

// printable replaces characters that a terminal would act on, such as escape sequences. A part of
// the text comes from the lock service, or from whatever answers at its address. A byte that isn't
// UTF-8 may be a control character of a terminal of 8 bits.
func printable(text string) string {
	if utf8.ValidString(text) && strings.IndexFunc(text, unprintable) < 0 {
		return text
	}
	var b strings.Builder
	for rest := text; rest != ""; {
		r, size := utf8.DecodeRuneInString(rest)
		char := rest[:size]
		rest = rest[size:]
		switch {
		case r == utf8.RuneError && size == 1:
			b.WriteString(strings.Trim(strconv.Quote(char), `"`))
		case r == '\t':
			b.WriteByte(' ')
		case unprintable(r):
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

func unprintable(r rune) bool { return !unicode.IsPrint(r) }

// lockFailure gives an error of Open or Acquire its code.
func lockFailure(err error) *exitError {
	code := exitService
	switch {
	case errors.Is(err, locker.ErrHeld), errors.Is(err, locker.ErrHeldByCaller):
		code = exitHeld
	case errors.Is(err, locker.ErrName), errors.Is(err, locker.ErrOption), errors.Is(err, locker.ErrGuarantee),
		errors.Is(err, errors.ErrUnsupported):
		code = exitUsage
	}
	return &exitError{code: code, err: err}
}

// lookPath finds CMD. The error doesn't repeat what may be a URL that was put in the place of CMD.
func lookPath(name string) (string, error) {
	path, err := exec.LookPath(name)
	if err == nil {
		return path, nil
	}
	var of *exec.Error
	if errors.As(err, &of) {
		err = withoutPath(of.Err)
	}
	what := "CMD"
	if !strings.ContainsAny(name, ":@?") {
		what = strconv.Quote(name)
	}
	return "", startFailure(fmt.Errorf("%s: %w", what, err))
}

// startFailure gives an error of finding or starting CMD the code that shells use for it.
func startFailure(err error) *exitError {
	code := exitNotStarted
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		code = exitNotFound
	}
	return &exitError{code: code, err: err}
}
