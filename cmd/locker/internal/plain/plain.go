// Package plain keeps secrets out of messages about wrong arguments.
package plain

import (
	"strconv"
	"strings"
)

// Word reports whether s can be repeated in a message: it is no part of a URL, which may hold a password.
func Word(s string) bool { return !strings.ContainsAny(s, ":/@") }

// Quote is s in quotes, if that may be repeated.
func Quote(s string) string {
	if Word(s) {
		return strconv.Quote(s)
	}
	return "what was given"
}
