package etcdbackend

import (
	"fmt"
	"strconv"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/driver/kit"
)

// The key of an acquisition is PREFIX NAME / KEYNAME: see keyNames. The slashes in a name are escaped,
// and so is the character that escapes: so all keys that begin with PREFIX NAME / belong to this very
// name, and no name can be written so that its keys are taken for another name's.
//
// The key of an acquisition of a slot is PREFIX NAME %s SLOT / KEYNAME. No name is written with "%s".
var (
	escape   = strings.NewReplacer("%", "%25", "/", "%2F").Replace
	unescape = strings.NewReplacer("%25", "%", "%2F", "/").Replace
)

const slotMark = "%s"

// dirOf is what the keys of all acquisitions of a name, or of a slot of it, begin with.
func dirOf(prefix, name string, slot int) string {
	dir := prefix + escape(name)
	if slot != 0 {
		dir += slotMark + kit.SlotText(slot)
	}
	return dir + "/"
}

// dirOfKey is the [dirOf] of the lock that a key belongs to, and false if it belongs to none: a
// guard key, or what somebody else has put.
func (d *etcdDriver) dirOfKey(key string) (string, bool) {
	text, isOurs := strings.CutPrefix(key, d.prefix)
	text, _, slash := strings.Cut(text, "/")
	dir := d.prefix + text + "/"
	_, _, ok := d.parseDir(dir)
	return dir, isOurs && slash && ok
}

// parseDir is the name and the slot of a [dirOf]. It is not ok if dir is none.
func (d *etcdDriver) parseDir(dir string) (name string, slot int, ok bool) {
	text := strings.TrimSuffix(strings.TrimPrefix(dir, d.prefix), "/")
	text, number, isSlot := strings.Cut(text, slotMark)
	if isSlot {
		if slot, ok = kit.ParseSlot(number); !ok {
			return "", 0, false
		}
	}
	name = unescape(text)
	return name, slot, escape(name) == text && locker.ValidName(name) == nil
}

// endOf is the end of the range of all keys that begin with prefix.
func endOf(prefix string) string { return clientv3.GetPrefixRangeEnd(prefix) }

// valueOf is the value of a key: the label, and in a line of its own a random id of the acquisition. By that
// an acquisition recognises the key that a copy of its put has put. Nothing else tells it from the key of
// another process: where a virtual machine is cloned, both have the same etcd lease and the same key names.
func valueOf(label driver.Label) string { return label.String() + "\n" + driver.NewOwner() }

// labelIn is the label in a key's value, without its mark.
func labelIn(value string) driver.Label {
	text, _, _ := strings.Cut(value, "\n")
	return driver.ParseLabel(text)
}

// guardKeyOf is the guard key of an etcd lease: see etcdLease. No name is written with "%g".
func guardKeyOf(prefix string, id clientv3.LeaseID) string {
	return fmt.Sprintf("%s%%guard/%016x", prefix, int64(id))
}

// sessionOf is the etcd lease that a key is attached to, as etcdctl writes it, and idOf reads that.
func sessionOf(kv *mvccpb.KeyValue) string { return fmt.Sprintf("%016x", uint64(kv.Lease)) }

func idOf(session string) clientv3.LeaseID {
	id, _ := strconv.ParseUint(session, 16, 64) // none: 0
	return clientv3.LeaseID(id)
}
