package redlockbackend_test

import (
	"runtime"
	"strconv"
	"testing"

	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/redlockbackend"
)

// What the driver keeps of a lease is small: with what the engine keeps, and the connections,
// 10,000 leases on five servers are to take no more than 12 MB of heap.
func TestHeldLeaseIsSmall(t *testing.T) {
	const many, most = 10_000, 520
	c := newCluster(t, 5, 0)
	locks := make([]driver.Lock, many)
	before := heapInUse()
	for i := range locks {
		locks[i] = redlockbackend.Hold(c.Driver, "name-"+strconv.Itoa(i))
	}
	each := (int64(heapInUse()) - int64(before)) / many
	t.Logf("%d bytes for each lease", each)
	if each > most {
		t.Errorf("a lease takes %d bytes, want at most %d", each, most)
	}
	runtime.KeepAlive(locks)
}

func heapInUse() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
