package etcdbackend

import (
	"hash/maphash"
	"math/bits"
	"strconv"
	"sync"

	"github.com/fencedlock/locker/driver"
)

// keyNames names the keys of a Locker's acquisitions: the last part of a key is the Locker's id and a
// number. A name is used again once its key is gone.
//
// etcd keeps a key that was deleted in its index until the history is compacted, and each request that
// reads a range goes through all keys in it, also those that are gone. If each acquisition had a key of
// its own, an acquisition would cost the cluster more the more there were before it. Measured with
// three members and one lock: after 19,000 acquisitions half as many a second.
//
// So a key doesn't distinguish acquisitions. Its create revision does, which no other key of a cluster has
// (a cluster that was set back: see noteCreated). Each request that deletes or changes a key compares a
// revision. The put can't: it only compares that the key doesn't exist. So a name isn't used again after a
// put of which a copy may still be executed.
type keyNames struct {
	mu     sync.Mutex
	set    *nameSet // nil: the next name begins a new one
	newest int64    // the latest create revision that one of these keys is known to have had
}

// nameSet is the names with one id.
type nameSet struct {
	id   string
	used map[uint64]uint64 // by the hash of dir: a bit for each number that is in use
}

var dirSeed = maphash.MakeSeed()

// hashOf is a hash of dir. Where two share one, they take different numbers.
func hashOf(dir string) uint64 { return maphash.String(dirSeed, dir) }

// keyName is the name that one acquisition has for its key.
type keyName struct {
	set    *nameSet // nil: it is never used again
	number int
	after  int64 // a later put has a later revision, unless the cluster was set back
}

// take returns a key that no other acquisition has.
func (k *keyNames) take(dir string) (key string, n keyName) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.set == nil {
		k.set = &nameSet{driver.NewOwner(), make(map[uint64]uint64)}
	}
	hash := hashOf(dir)
	used := k.set.used[hash]
	number := bits.TrailingZeros64(^used)
	if number == 64 { // so many acquisitions of the name exist at the same time
		return dir + driver.NewOwner(), keyName{}
	}
	k.set.used[hash] = used | 1<<number
	return dir + k.set.id + "-" + strconv.Itoa(number), keyName{k.set, number, k.newest}
}

// giveBack makes the name free: its key doesn't exist, and no request may still put it.
func (k *keyNames) giveBack(dir string, n keyName) {
	if n.set == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	hash := hashOf(dir)
	if used := n.set.used[hash] &^ (1 << n.number); used != 0 {
		n.set.used[hash] = used
	} else {
		delete(n.set.used, hash)
	}
}

// retire ends the use of all names with the same id.
func (k *keyNames) retire(n keyName) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.set == n.set {
		k.set = nil
	}
}

// noteCreated records the create revision of a key that was put under the name. It is false if no earlier key
// can be told from it any more: the cluster was set back, and gives revisions a second time. Then all names
// with the same id are retired.
func (k *keyNames) noteCreated(n keyName, created int64) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if n.set == nil || created > n.after {
		k.newest = max(k.newest, created)
		return true
	}
	if k.set == n.set {
		k.set, k.newest = nil, created
	}
	return false
}
