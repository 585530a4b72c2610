package redisconn

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/fencedlock/locker"
)

// A key is PREFIX{NAME}, and other keys about the same name have more after the brace. So all keys of
// a name have the same hash tag, and a Cluster keeps them on one server. A brace in the name would end
// the tag early, so braces are escaped, and the escape character too. Therefore different names never
// share a key, and no name's key is the beginning of a longer name's key.
var escape = strings.NewReplacer("%", "%25", "{", "%7B", "}", "%7D").Replace

// Key is the key of a name.
func Key(prefix, name string) string { return prefix + "{" + escape(name) + "}" }

// CheckPrefix refuses a prefix that would make keys ambiguous or unreadable.
func CheckPrefix(prefix string) error {
	switch {
	case strings.ContainsAny(prefix, "{}"):
		return fmt.Errorf("%w: invalid prefix: want one without a brace, which would change the keys' hash tag, for example billing:", locker.ErrOption)
	case !utf8.ValidString(prefix), strings.ContainsFunc(prefix, unicode.IsControl):
		return fmt.Errorf("%w: invalid prefix: want UTF-8 without a control character, for example billing:", locker.ErrOption)
	}
	return nil
}
