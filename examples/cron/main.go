// Cron runs a job that is started in several places at about the same time, and must be done once on
// this machine: if the job already runs, or has just been done, the program exits. With a URL of
// another backend in LOCKER_URL this holds for all machines. cron doesn't have your shell's variables:
// set LOCKER_URL in the crontab.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/url"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/fencedlock/locker"
	_ "github.com/fencedlock/locker/etcdbackend"    // etcd://
	_ "github.com/fencedlock/locker/filebackend"    // file:///directory
	_ "github.com/fencedlock/locker/pgbackend"      // postgres://
	_ "github.com/fencedlock/locker/redisbackend"   // redis://
	_ "github.com/fencedlock/locker/redlockbackend" // redlock://
	_ "github.com/fencedlock/locker/zkbackend"      // zk://
)

// minHold is longer than the differences between the clocks of all machines. A job that starts every
// hour could have half an hour.
const minHold = 2 * time.Second

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := job(ctx)
	stop()
	if err != nil {
		log.Print(err)
		os.Exit(1) // os.Exit skips deferred calls, so this function has none
	}
}

func job(ctx context.Context) error {
	if u := os.Getenv("LOCKER_URL"); u != "" {
		return run(ctx, u)
	}
	dir, err := os.MkdirTemp("", "cron-example-") // a real job would name a directory that stays
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	return run(ctx, (&url.URL{Scheme: "file", Path: dir}).String())
}

func run(ctx context.Context, lockURL string) error {
	l, err := locker.Open(ctx, lockURL, locker.Efficiency)
	if err != nil {
		return err
	}
	defer l.Close()

	// The report is short. So its lock stays held after it, until all machines have asked. Close waits
	// for that.
	err = locker.Do(ctx, l, "nightly-report", report, locker.NoWait(), locker.WithMinHold(minHold))
	if errors.Is(err, locker.ErrHeld) {
		fmt.Println("somebody else is at it")
		return nil
	}
	return err
}

// report stops when its context ends: then the lock is lost, or the program has got a signal to
// stop.
func report(ctx context.Context, _ locker.Lease) error {
	for page := 1; page <= 3; page++ {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		fmt.Println("page", page)
	}
	return nil
}
