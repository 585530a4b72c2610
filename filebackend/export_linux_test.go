package filebackend

import (
	"encoding/binary"
	"syscall"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
)

var KindOf = kindOf

func Watch(d driver.Driver, path string) (<-chan struct{}, func()) {
	return d.(*fileDriver).watcher.watch(path)
}

// Overflow gives the watcher of a driver the event that says that events were dropped.
func Overflow(d driver.Driver) {
	event := make([]byte, syscall.SizeofInotifyEvent)
	binary.NativeEndian.PutUint32(event, ^uint32(0)) // no watch
	binary.NativeEndian.PutUint32(event[4:], syscall.IN_Q_OVERFLOW)
	w := &d.(*fileDriver).watcher
	w.pass(w.inst, event, nil)
}

// SetIdleTime sets how long the reader of notices stays without waiters, and returns how long it
// was.
func SetIdleTime(d time.Duration) (before time.Duration) {
	before, idleTime = idleTime, d
	return before
}

var IsProcess = isProcess

// HoldersIn reads a table as /proc/locks has it.
func HoldersIn(table, device string) map[uint64]int {
	held := make(holders)
	held.add(table, device)
	return held
}

// NewestToken is the token of the newest record at path.
func NewestToken(path string) (locker.Token, error) {
	g, err := newestGrant(path)
	return g.token, err
}
