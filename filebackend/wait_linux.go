package filebackend

import (
	"encoding/binary"
	"errors"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/fencedlock/locker"
)

const waiting = locker.WaitingNotify

// A holder's end closes the file. The mode changes at a release while others have the descriptor, and the number of
// links when somebody removes or replaces the file.
const awaited = syscall.IN_CLOSE_WRITE | syscall.IN_ATTRIB | syscall.IN_MOVE_SELF

// linger is how long an inotify instance without waiters is kept. To close one takes up to 20 ms in the kernel, and the
// next waiter often comes before that. Tests change it.
var linger = time.Second

// watcher tells the waiters of one Locker that their lock may be free. It has one inotify instance and one goroutine,
// which ends, with the instance, a while after the last waiter has left, and in close.
type watcher struct {
	mu      sync.Mutex
	inst    *inotify // nil: there is none
	readers sync.WaitGroup
}

// inotify is one instance. The watcher's mutex guards it. It is open while it is the watcher's.
type inotify struct {
	file    *os.File
	fd      int
	waiters map[int32]map[chan<- struct{}]struct{} // by watch descriptor; the kernel has one for each file
}

// watch begins to watch the file at path. The channel is nil when that isn't possible: when the user's instances are
// used up, or the file is gone. stop ends it.
func (w *watcher) watch(path string) (notices <-chan struct{}, stop func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.inst == nil {
		fd, err := syscall.InotifyInit1(syscall.IN_NONBLOCK | syscall.IN_CLOEXEC)
		if err != nil {
			return nil, func() {}
		}
		w.inst = &inotify{
			file:    os.NewFile(uintptr(fd), "inotify"),
			fd:      fd,
			waiters: make(map[int32]map[chan<- struct{}]struct{}),
		}
		w.readers.Add(1)
		go w.read(w.inst)
	}
	i := w.inst
	n, err := syscall.InotifyAddWatch(i.fd, path, awaited|syscall.IN_DONT_FOLLOW)
	if err != nil {
		w.idle(i)
		return nil, func() {}
	}
	wd, ch := int32(n), make(chan struct{}, 1)
	if i.waiters[wd] == nil {
		i.waiters[wd] = make(map[chan<- struct{}]struct{})
	}
	i.waiters[wd][ch] = struct{}{}
	_ = i.file.SetReadDeadline(time.Time{})
	return ch, func() { w.stop(i, wd, ch) }
}

func (w *watcher) stop(i *inotify, wd int32, ch chan<- struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(i.waiters[wd], ch)
	if len(i.waiters[wd]) > 0 || w.inst != i {
		return
	}
	delete(i.waiters, wd)
	_, _ = syscall.InotifyRmWatch(i.fd, uint32(wd)) // fails when the file is gone, and the watch with it
	w.idle(i)
}

// idle lets the reader of an instance without waiters end.
func (w *watcher) idle(i *inotify) {
	if len(i.waiters) == 0 {
		_ = i.file.SetReadDeadline(time.Now().Add(linger))
	}
}

// read passes notices on. It closes the instance itself, because nobody else should wait for that.
func (w *watcher) read(i *inotify) {
	defer w.readers.Done()
	defer i.file.Close()
	buf := make([]byte, 4096)
	for {
		n, err := i.file.Read(buf)
		if !w.pass(i, buf[:max(n, 0)], err) {
			return
		}
	}
}

// pass is false when the reader shall end.
func (w *watcher) pass(i *inotify, events []byte, err error) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case err == nil:
		i.notify(events)
		return true
	case errors.Is(err, os.ErrDeadlineExceeded) && len(i.waiters) > 0:
		return true // one has come at the last moment
	}
	w.inst = nil // after an error of the system waiters look by themselves
	return false
}

// notify wakes those whom the events are for. An event is an inotify_event: its watch, its mask, a cookie, the length
// of the name that follows.
func (i *inotify) notify(events []byte) {
	const head = syscall.SizeofInotifyEvent
	for len(events) >= head {
		wd := int32(binary.NativeEndian.Uint32(events))
		mask := binary.NativeEndian.Uint32(events[4:])
		if mask&syscall.IN_Q_OVERFLOW != 0 {
			for _, all := range i.waiters {
				wake(all)
			}
		}
		wake(i.waiters[wd])
		events = events[min(head+int(binary.NativeEndian.Uint32(events[12:])), len(events)):]
	}
}

func wake(waiters map[chan<- struct{}]struct{}) {
	for ch := range waiters {
		select {
		case ch <- struct{}{}:
		default: // it has one that it hasn't seen yet
		}
	}
}

// close ends the reader and waits for it. Nobody waits for a lock any more.
func (w *watcher) close() {
	w.mu.Lock()
	if w.inst != nil {
		_ = w.inst.file.SetReadDeadline(time.Now())
	}
	w.mu.Unlock()
	w.readers.Wait()
}
