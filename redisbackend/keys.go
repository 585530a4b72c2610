package redisbackend

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/fencedlock/locker"
)

// All keys of a lock share one hash tag, so that they are on one server of a Cluster: PREFIX{NAME}, and more words
// after the brace. A name's own braces would end the tag early, so they are escaped, and with them the sign that
// escapes. Thus different names never share a key, and one that is longer than another is no trap for it.
var escape = strings.NewReplacer("%", "%25", "{", "%7B", "}", "%7D").Replace

// lockKey is the key of a lock. All others follow from it.
func lockKey(prefix, name string) string { return prefix + "{" + escape(name) + "}" }

// keysOf lists the keys that scripts about one acquisition get, in the order of args.lua.
func keysOf(lock, owner string) [5]string {
	const token, queue, waiters, tomb = ":token", ":queue", ":waiters", ":tomb:"
	all := lock + token + lock + queue + lock + waiters + lock + tomb + owner // one allocation for all
	keys := [...]string{lock, "", "", "", ""}
	for i, suffix := range [...]int{len(token), len(queue), len(waiters), len(tomb) + len(owner)} {
		keys[i+1], all = all[:len(lock)+suffix], all[len(lock)+suffix:]
	}
	return keys
}

// channelOf is where a Locker listens for grants.
func channelOf(prefix, id string) string { return prefix + "grants:" + id }

// checkPrefix refuses a prefix that would make keys ambiguous, or unreadable.
func checkPrefix(prefix string) error {
	switch {
	case strings.ContainsAny(prefix, "{}"):
		return fmt.Errorf("%w: the prefix has a brace, which would change the hash tag of the keys", locker.ErrOption)
	case !utf8.ValidString(prefix), strings.ContainsFunc(prefix, unicode.IsControl):
		return fmt.Errorf("%w: the prefix is not UTF-8, or has a control character", locker.ErrOption)
	}
	return nil
}
