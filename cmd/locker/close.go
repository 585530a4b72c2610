package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/fencedlock/locker"
)

// close closes l, which gives the lock back. With --at-least that takes until the time is over, unless a
// signal ends this program before: then the lock is left to its TTL or, on files, to the end of the process.
//
// l is nil if nothing was opened.
func (r *runner) close(l locker.Locker) {
	defer r.tty.close()
	if l == nil {
		return
	}
	closed := make(chan error, 1)
	go func() { closed <- l.Close() }()
	var notice <-chan time.Time
	if r.atLeast > 0 && !r.quiet {
		notice = time.After(noticeAfter)
	}
	for {
		select {
		case err := <-closed:
			if err != nil {
				flush(sayAside(r.stderr, err.Error()))
			}
			return
		case <-notice:
			if !keeps(l) {
				continue
			}
			sayAside(r.stderr, fmt.Sprintf("CMD has ended; keeping %s until it was held for %v", r.name, r.atLeast))
		case sig := <-r.signals:
			if keeps(l) && slices.Contains(endingSignals, sig) {
				if !r.quiet {
					flush(sayAside(r.stderr, fmt.Sprintf("no longer keeping %s: %v", r.name, sig)))
				}
				return
			}
		}
	}
}

// keeps reports whether l keeps a lock for its minimum hold.
func keeps(l locker.Locker) bool {
	stats, _ := locker.StatsOf(l)
	return stats.Kept > 0
}
