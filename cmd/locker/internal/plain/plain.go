// Package plain keeps secrets out of messages about invalid arguments.
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
