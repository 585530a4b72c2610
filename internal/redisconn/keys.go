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
//
// The key of a slot is PREFIX{NAME}:slot:SLOT, and has more after it for its other keys.
var escape = strings.NewReplacer("%", "%25", "{", "%7B", "}", "%7D").Replace

// Key is the key of a name.
func Key(prefix, name string) string { return prefix + "{" + escape(name) + "}" }

const slotMark = ":slot:"

// SlotKey is the key of a slot of a name, or of the name if slot is 0.
func SlotKey(prefix, name string, slot int) string {
	if slot == 0 {
		return Key(prefix, name)
	}
	return Key(prefix, name) + slotMark + kit.SlotText(slot)
}

var unescape = strings.NewReplacer("%25", "%", "%7B", "{", "%7D", "}").Replace

// NameOf is the name and the slot whose key is key. It is not ok if key is no such key.
func NameOf(prefix, key string) (name string, slot int, ok bool) {
	text, ok1 := strings.CutPrefix(key, prefix+"{")
	text, rest, ok2 := strings.Cut(text, "}")
	if number, isSlot := strings.CutPrefix(rest, slotMark); isSlot {
		slot, ok = kit.ParseSlot(number)
	} else {
		ok = rest == ""
	}
	name = unescape(text)
	return name, slot, ok && ok1 && ok2 && escape(name) == text
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
