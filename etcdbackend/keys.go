package etcdbackend

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fencedlock/locker"
)

// The key of an acquisition is PREFIX NAME / OWNER. A name's own slashes are escaped, and with them the sign that
// escapes: so all keys that begin with PREFIX NAME / are of this very name, and none is a trap for another.
var escape = strings.NewReplacer("%", "%25", "/", "%2F").Replace

// dirOf is what the keys of all acquisitions of a name begin with.
func dirOf(prefix, name string) string { return prefix + escape(name) + "/" }

// endOf is the end of the range of all keys that begin with prefix.
func endOf(prefix string) string { return clientv3.GetPrefixRangeEnd(prefix) }

// guardOf is the guard key of a session: see session.go. No name is written with "%g".
func guardOf(prefix string, id clientv3.LeaseID) string {
	return fmt.Sprintf("%s%%guard/%016x", prefix, int64(id))
}

// checkPrefix refuses a prefix that would be unreadable.
func checkPrefix(prefix string) error {
	if !utf8.ValidString(prefix) || strings.ContainsFunc(prefix, unicode.IsControl) {
		return fmt.Errorf("%w: the prefix is not UTF-8, or has a control character", locker.ErrOption)
	}
	return nil
}
