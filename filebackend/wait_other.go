//go:build darwin || freebsd || openbsd || dragonfly

package filebackend

import "github.com/fencedlock/locker"

const waiting = locker.WaitingPolled

// watcher has nobody who could tell it anything, so waiters look by themselves.
type watcher struct{}

func (*watcher) watch(string) (<-chan struct{}, func()) { return nil, func() {} }

func (*watcher) close() {}
