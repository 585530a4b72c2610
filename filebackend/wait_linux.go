package filebackend

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver/kit"
)

const waiting = locker.WaitingNotify

// The end of a holder closes the file. A release while others have the descriptor sets the mode.
// Removing or replacing the file changes its number of links.
const awaited = syscall.IN_CLOSE_WRITE | syscall.IN_ATTRIB | syscall.IN_MOVE_SELF

// idleTime is how long an inotify instance without waiters is kept. Closing one takes up to 20 ms
// in the kernel, and the next waiter often comes soon. Tests change it.
var idleTime = time.Second

// watcher notifies the waiters of one Locker that their lock may be free. It has one inotify
// instance and one goroutine. Both end some time after the last waiter has left, and in close.
type watcher struct {
	mu      sync.Mutex
	inst    *inotify // nil: there is none
	closed  bool     // no instance is made any more, and the present one ends
	readers sync.WaitGroup
}

// inotify is one instance, guarded by the watcher's mutex. It is open for as long as watcher.inst
// points to it.
type inotify struct {
	file    *os.File
	fd      int
	waiters map[int32]map[kit.Signal]struct{} // by watch descriptor, one a file
}

// watch begins to watch the file at path. The channel is nil when that isn't possible, because the
// user has no instance left, the file is gone, or the watcher is closed. stop ends the watch.
func (w *watcher) watch(path string) (notices kit.Signal, stop func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return nil, func() {}
	}
	if w.inst == nil {
		fd, err := syscall.InotifyInit1(syscall.IN_NONBLOCK | syscall.IN_CLOEXEC)
		if err != nil {
			return nil, func() {}
		}
		w.inst = &inotify{
			file:    os.NewFile(uintptr(fd), "inotify"),
			fd:      fd,
			waiters: make(map[int32]map[kit.Signal]struct{}),
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
	wd, notice := int32(n), kit.NewSignal()
	if i.waiters[wd] == nil {
		i.waiters[wd] = make(map[kit.Signal]struct{})
	}
	i.waiters[wd][notice] = struct{}{}
	_ = i.file.SetReadDeadline(time.Time{})
	return notice, func() { w.stop(i, wd, notice) }
}

func (w *watcher) stop(i *inotify, wd int32, notice kit.Signal) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(i.waiters[wd], notice)
	if len(i.waiters[wd]) > 0 || w.inst != i {
		return
	}
	delete(i.waiters, wd)
	_, _ = syscall.InotifyRmWatch(i.fd, uint32(wd)) // fails if the file is gone
	w.idle(i)
}

// idle ends the reader of an instance without waiters after idleTime. After close it ends at once, and
// a later deadline would keep it.
func (w *watcher) idle(i *inotify) {
	if len(i.waiters) == 0 && !w.closed {
		_ = i.file.SetReadDeadline(time.Now().Add(idleTime))
	}
}

// read passes notices to the waiters. It closes the instance itself, so that nobody else has to
// wait for that.
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

// pass returns false when the reader must end.
func (w *watcher) pass(i *inotify, events []byte, err error) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.closed:
	case err == nil:
		i.notify(events)
		return true
	case errors.Is(err, os.ErrDeadlineExceeded) && len(i.waiters) > 0:
		return true // a waiter has come at the last moment
	}
	w.inst = nil // after close or a system error, waiters try without notices
	return false
}

// notify wakes the waiters that the events are for. An event is an inotify_event: its watch, its
// mask, a cookie, the length of the name that follows.
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

func wake(waiters map[kit.Signal]struct{}) {
	for notice := range waiters {
		notice.Set()
	}
}

// close ends the reader, also if callers still wait for notices. It waits for the end of the reader or
// of ctx.
func (w *watcher) close(ctx context.Context) error {
	w.mu.Lock()
	w.closed = true
	if w.inst != nil {
		_ = w.inst.file.SetReadDeadline(time.Now())
	}
	w.mu.Unlock()
	ended := make(chan struct{})
	go func() {
		w.readers.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("the reader of notices doesn't end: %w", context.Cause(ctx))
	}
}
