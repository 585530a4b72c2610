//go:build linux || darwin || freebsd || openbsd || dragonfly

package filebackend

import (
	"os"
	"sync"
)

// granted are the files of all locks that this process holds. Nothing else may refer to them: a
// lease without a TTL needs no timer, so a program that forgets the lease and its Locker would leave
// both to the garbage collector, which closes the file. That would free the lock.
var granted = fileSet{files: make(map[*os.File]struct{})}

// fileSet keeps open files from the garbage collector.
type fileSet struct {
	mu    sync.Mutex
	files map[*os.File]struct{}
}

func (s *fileSet) add(f *os.File) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.files[f] = struct{}{}
}

// remove has no effect on a file that was never granted.
func (s *fileSet) remove(f *os.File) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.files, f)
}
