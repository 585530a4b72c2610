//go:build darwin || freebsd || openbsd || dragonfly

package filebackend

import (
	"context"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver/kit"
)

const waiting = locker.WaitingPolled

// watcher has no source of notices here, so waiters poll.
type watcher struct{}

func (*watcher) watch(string) (kit.Signal, func()) { return nil, func() {} }

func (*watcher) close(context.Context) error { return nil }
