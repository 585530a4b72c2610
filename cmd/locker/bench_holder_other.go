//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package main

import (
	"context"
	"time"

	"github.com/fencedlock/locker/cmd/locker/internal/bench"
)

// holdElsewhere is nil: processes can't be stopped here.
func holdElsewhere(string, time.Duration) func(context.Context, string) (bench.Process, error) {
	return nil
}
