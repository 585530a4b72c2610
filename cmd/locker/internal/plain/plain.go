// Package plain puts messages in words, and keeps secrets out of those about invalid arguments.
package plain

import (
	"strconv"
	"strings"
)

// Word reports whether s can be repeated in a message. Otherwise s may be part of a URL, which may
// contain a password.
func Word(s string) bool { return !strings.ContainsAny(s, ":/@") }

// Quote returns s in quotes, if s may be repeated.
func Quote(s string) string {
	if Word(s) {
		return strconv.Quote(s)
	}
	return "what was given"
}

// Count is a number of things: "1 lock", "2 locks".
func Count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.Itoa(n) + " " + what + "s"
}
