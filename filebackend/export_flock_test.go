//go:build linux || darwin || freebsd || openbsd || dragonfly

package filebackend

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
)

const (
	SlotSize   = slotSize
	RecordSize = recordSize
	Local      = fsLocal
	Memory     = fsMemory
	Network    = fsNetwork
	Union      = fsUnion
	Unknown    = fsUnknown
)

type FileSystem = fileSystem

var (
	Encode       = encode
	Next         = next
	FileSystemOf = fileSystemOf
	NewDriver    = newDriver
	BlankFile    = blankFile
	GuaranteesIn = guaranteesIn
	PathRefusal  = pathRefusal
)

// Disk is a lock file of a test.
type Disk interface {
	io.ReaderAt
	Name() string
	WriteSynced(b []byte, at int64) error
	SyncEarlier() error
}

type disk struct{ Disk }

func (d disk) writeSynced(b []byte, at int64) error { return d.WriteSynced(b, at) }
func (d disk) syncEarlier() error                   { return d.SyncEarlier() }

func Mint(d Disk, syncDir func() error) (locker.Token, error) {
	return mint(disk{d}, driver.NewOwner(), "1795221171926 web-7f9c/4711/reportd", syncDir)
}

func Refusal(mode fs.FileMode, owner, euid int, kind FileSystem) string {
	return refusal(mode, owner, euid, kind, "somefs")
}

// SlowTries makes waiters that get notices try without one only once an hour, so that a test fails
// when no notice comes.
func SlowTries() { maxPauseNotified = time.Hour }

// Pace lets a test walk through the tries of a waiter.
type Pace struct{ pace }

func NewPace(notified bool) *Pace               { return &Pace{pace{notified: notified}} }
func (p *Pace) Next() (bool, time.Duration)     { return p.next() }
func (p *Pace) Notice()                         { p.notice() }
func (p *Pace) Silence()                        { p.silence() }
func Longest() (notified, polled time.Duration) { return maxPauseNotified, maxPausePolled }

// OpenSynced opens a lock file, and also returns the function that writes to it.
func OpenSynced(dir, path string) (f *os.File, write func(b []byte, at int64) error, err error) {
	f, err = openFile(dir, path)
	return f, syncedFile{f}.writeSynced, err
}

// Decode returns the token of a record.
func Decode(record []byte) (locker.Token, bool) {
	g, ok := decode(record)
	return g.token, ok
}

// Granted returns the files below dir that are kept open because their locks were granted.
func Granted(dir string) (files []*os.File) {
	if real, err := filepath.EvalSymlinks(dir); err == nil { // as the files are called
		dir = real
	}
	granted.mu.Lock()
	defer granted.mu.Unlock()
	for f := range granted.files {
		if filepath.Dir(f.Name()) == dir {
			files = append(files, f)
		}
	}
	return files
}

// EndGranted does what the end of the process does to the locks below dir.
func EndGranted(dir string) {
	for _, f := range Granted(dir) {
		granted.remove(f)
		_ = f.Close()
	}
}

// IsOf reports whether the lock with a name, a slot and a token is of a lease that is held.
func IsOf(name string, slot int, token locker.Token, lease locker.LeaseInfo, now time.Time) bool {
	return (&lock{name: name, slot: slot, token: token}).isOf(lease, now)
}

// DecodeHolder returns whom a record names.
func DecodeHolder(record []byte) (owner string, pid int) {
	g, _ := decode(record)
	return g.owner, g.pid
}

var EncodeWithLabel = encodeWithLabel

// DecodeLabel returns the label of a record.
func DecodeLabel(b []byte) (string, bool) {
	g, ok := decodeWithLabel(b)
	return g.label, ok
}
