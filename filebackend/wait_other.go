//go:build darwin || freebsd || openbsd || dragonfly

package filebackend

import "github.com/fencedlock/locker"

const waiting = locker.WaitingPolled

// watcher has no source of notices here, so waiters poll.
type watcher struct{}

func (*watcher) watch(string) (<-chan struct{}, func()) { return nil, func() {} }

func (*watcher) close() {}
