package redisconn

import (
	"fmt"
	"strings"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver/kit"
)

// A key is PREFIX{NAME}, and other keys about the same name have more after the brace. So all keys
// of a name have the same hash tag, and a Cluster keeps them on one server. A brace in the name
// would end the tag early, so braces are escaped, and the escape character too. Therefore different
// names never share a key, and no name's key is the beginning of a longer name's key.
var escape = strings.NewReplacer("%", "%25", "{", "%7B", "}", "%7D").Replace

// Key is the key of a name.
func Key(prefix, name string) string { return prefix + "{" + escape(name) + "}" }

var unescape = strings.NewReplacer("%25", "%", "%7B", "{", "%7D", "}").Replace

// NameOf is the name whose key is key, and false if key is no key of a name.
func NameOf(prefix, key string) (string, bool) {
	text, ok1 := strings.CutPrefix(key, prefix+"{")
	text, ok2 := strings.CutSuffix(text, "}")
	name := unescape(text)
	return name, ok1 && ok2 && escape(name) == text
}

// Pattern matches the keys of all names that begin with start, and keys that have more after the
// brace.
func Pattern(prefix, start string) string {
	return escapePattern(strings.TrimSuffix(Key(prefix, start), "}")) + "*"
}

var escapePattern = strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`, "]", `\]`).Replace

// CheckPrefix refuses a prefix that would make keys ambiguous or unreadable.
func CheckPrefix(prefix string) error {
	if strings.ContainsAny(prefix, "{}") {
		return fmt.Errorf("%w: prefix: want no brace, which would change the keys' hash tag, for example %q", locker.ErrOption, "billing:")
	}
	return kit.CheckPrefix(prefix)
}
