package redlockbackend

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/fencedlock/locker"
)

// The keys are PREFIX{NAME}, with more after the brace, as those of package redisbackend are: tools that know the one
// know the other. A name's own braces are escaped, and with them the sign that escapes. Thus different names never share
// a key, and one that is longer than another is no trap for it.
var escape = strings.NewReplacer("%", "%25", "{", "%7B", "}", "%7D").Replace

// lockKey is the key of a lock. The scripts make the others from it.
func lockKey(prefix, name string) string { return prefix + "{" + escape(name) + "}" }

// memoryKey is where a server remembers what it has to. It has no braces, so it is that of no lock.
func memoryKey(prefix string) string { return prefix + "memory" }

// channelOf is where a Locker hears that a lock is free.
func channelOf(prefix, id string) string { return prefix + "free:" + id }

// checkPrefix refuses a prefix that would make keys ambiguous, or unreadable.
func checkPrefix(prefix string) error {
	switch {
	case strings.ContainsAny(prefix, "{}"):
		return fmt.Errorf("%w: the prefix has a brace, which is the mark of a lock's name in a key", locker.ErrOption)
	case !utf8.ValidString(prefix), strings.ContainsFunc(prefix, unicode.IsControl):
		return fmt.Errorf("%w: the prefix is not UTF-8, or has a control character", locker.ErrOption)
	}
	return nil
}
