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
)

// wait returns with the grant, an error, or the end of ctx.
func (l *lock) wait(ctx context.Context) (driver.Grant, error) {
	var (
		watched *os.File
		notices <-chan struct{}
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
		// After the watch has begun, so that no release goes by between the two.
		grant, err := l.try(ctx)
		if !errors.Is(err, locker.ErrHeld) {
			return grant, err
		}
		if l.file != watched {
			continue // another file has taken its place
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

// The longest time between two looks, where notices come and where none do. Tests change the first.
var (
	lookNotified = time.Second
	lookPolled   = 60 * time.Millisecond
)

// pace is when a waiter tries again. A notice may come shortly before the lock is free: the kernel sends it first when
// it closes a dead holder's file. And it may mean nothing, because everybody's files cause notices when they are
// closed. So the try that follows a notice is followed by a few more, with growing pauses; and in the first pause no
// notice counts, which bounds the tries of a waiter whatever the others do.
type pace struct {
	notified bool          // notices come
	pause    time.Duration // since the last notice; 0: it is long ago
}

const (
	firstPause  = time.Millisecond
	pauseGrowth = 4
	lastPause   = 64 * time.Millisecond
)

// next is how long to pause after a try in vain, and whether to listen for notices meanwhile.
func (p *pace) next() (listen bool, pause time.Duration) {
	switch {
	case p.pause > 0:
		return p.pause > firstPause, p.pause
	case p.notified:
		return true, jitter(lookNotified)
	}
	return true, jitter(lookPolled)
}

func (p *pace) notice() { p.pause = firstPause }

func (p *pace) silence() {
	if p.pause *= pauseGrowth; p.pause > lastPause {
		p.pause = 0
	}
}

// jitter keeps those who began together from looking together.
func jitter(longest time.Duration) time.Duration { return longest/4 + rand.N(3*longest/4) }
