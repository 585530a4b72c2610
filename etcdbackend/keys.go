package etcdbackend

import (
	"fmt"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// The key of an acquisition is PREFIX NAME / OWNER. The slashes in a name are escaped, and so is the
// character that escapes: so all keys that begin with PREFIX NAME / belong to this very name, and no
// name can be written so that its keys are taken for another name's.
var escape = strings.NewReplacer("%", "%25", "/", "%2F").Replace

// dirOf is what the keys of all acquisitions of a name begin with.
func dirOf(prefix, name string) string { return prefix + escape(name) + "/" }

// endOf is the end of the range of all keys that begin with prefix.
func endOf(prefix string) string { return clientv3.GetPrefixRangeEnd(prefix) }

// guardKeyOf is the guard key of an etcd lease: see etcdLease. No name is written with "%g".
func guardKeyOf(prefix string, id clientv3.LeaseID) string {
	return fmt.Sprintf("%s%%guard/%016x", prefix, int64(id))
}
