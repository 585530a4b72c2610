//go:build linux || darwin || freebsd || openbsd || dragonfly

package filebackend

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/driver/kit"
)

// wait returns with the grant, an error, or the end of ctx.
func (l *lock) wait(ctx context.Context) (driver.Grant, error) {
	var (
		watched *os.File
		notices kit.Signal
		stop    = func() {}
		p       pace
	)
	defer func() { stop() }()
	for {
		if l.file != watched {
			stop()
			notices, stop = l.d.watcher.watch(l.path)
			watched, p = l.file, pace{notified: notices != nil}
		}
		// After the watch has begun, so that no release is missed between the two.
		grant, err := l.try(ctx)
		if !errors.Is(err, locker.ErrHeld) {
			return grant, err
		}
		if l.file != watched {
			continue // it was replaced by another file
		}
		listen, pause := p.next()
		heard := notices
		if !listen {
			heard = nil
		}
		select {
		case <-ctx.Done():
		case <-heard:
			p.notice()
		case <-time.After(pause):
			p.silence()
		}
	}
}

// The longest time between two tries, with and without notices. Tests change the first.
var (
	maxPauseNotified = time.Second
	maxPausePolled   = 60 * time.Millisecond
)

// pace decides when a waiter tries again. A notice may come shortly before the lock is free: when
// the kernel closes a dead holder's file, it sends the notice first. And a notice may mean nothing,
// because every closed copy of the file causes one. So the try that follows a notice is followed by
// a few more, with growing pauses. During the first pause no notice counts, which bounds the tries
// of a waiter whatever others do.
type pace struct {
	notified bool          // notices come
	pause    time.Duration // the next one after a notice; 0: the last notice is long ago
}

const (
	firstPause  = time.Millisecond
	pauseGrowth = 4
	lastPause   = 64 * time.Millisecond
)

// next returns how long to pause after a failed try, and whether a notice may end the pause.
func (p *pace) next() (listen bool, pause time.Duration) {
	switch {
	case p.pause > 0:
		return p.pause > firstPause, p.pause
	case p.notified:
		return true, jitter(maxPauseNotified)
	}
	return true, jitter(maxPausePolled)
}

func (p *pace) notice() { p.pause = firstPause }

func (p *pace) silence() {
	if p.pause *= pauseGrowth; p.pause > lastPause {
		p.pause = 0
	}
}

// jitter spreads the tries of waiters that began together.
func jitter(longest time.Duration) time.Duration { return longest/4 + rand.N(3*longest/4) }
