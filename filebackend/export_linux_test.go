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

// Holders reads tables as /proc/locks has them.
type Holders struct{ holders }

func NewHolders(fsName string) Holders                  { return Holders{newHolders(fsName)} }
func (h Holders) Add(table, device string)              { h.add(table, device) }
func (h Holders) Of(path string) (*locker.Party, error) { return h.of(path) }
func (h Holders) PIDs(file uint64) []int                { return h.pids[file] }
func (h Holders) Files() int                            { return len(h.pids) }

var KindName = func(magic uint32) string { _, name := kindOf(magic); return name }

// StuckReader makes a driver wait at Close for a reader of notices, until ended is called.
func StuckReader(d driver.Driver) (ended func()) {
	readers := &d.(*fileDriver).watcher.readers
	readers.Add(1)
	return readers.Done
}

// NewestToken is the token of the newest record at path.
func NewestToken(path string) (locker.Token, error) {
	g, err := newestGrant(path)
	return g.token, err
}
