//go:build linux || darwin || freebsd || openbsd || dragonfly

package filebackend_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/filebackend"
)

// Two Lockers on one directory exclude each other, as two processes do. The lock has no TTL: the
// kernel frees it when the process of its holder ends.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "locks") // in a program: a directory that lasts, such as /var/lib/reports/locks
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	open := func() locker.Locker {
		l, err := filebackend.New(filepath.Join(dir, "locks"))
		if err != nil {
			log.Fatal(err)
		}
		return l
	}
	one, two := open(), open()
	defer one.Close()
	defer two.Close()

	lease, err := one.Acquire(ctx, "nightly-report")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("has a deadline:", !lease.Deadline().IsZero())
	_, err = locker.TryAcquire(ctx, two, "nightly-report")
	fmt.Println("held:", errors.Is(err, locker.ErrHeld))
	first := lease.Token()
	if err := lease.Release(ctx); err != nil {
		log.Fatal(err)
	}

	lease, err = locker.TryAcquire(ctx, two, "nightly-report")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("larger token:", lease.Token() > first)
	// Output:
	// has a deadline: false
	// held: true
	// larger token: true
}
