// Cron runs a job that may be started several times and must run once at a time on this machine: if somebody is at it
// already, it goes home. With a URL of another backend in LOCKER_URL it does so on all machines.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/fencedlock/locker"
	_ "github.com/fencedlock/locker/filebackend" // file:///directory
)

func main() {
	url := os.Getenv("LOCKER_URL")
	if url == "" {
		dir, err := os.MkdirTemp("", "cron-example-") // a real job would name a directory that stays
		if err != nil {
			log.Fatal(err)
		}
		defer os.RemoveAll(dir)
		url = "file://" + dir
	}
	if err := run(context.Background(), url); err != nil {
		log.Print(err)
	}
}

func run(ctx context.Context, url string) error {
	l, err := locker.Open(ctx, url, locker.Efficiency)
	if err != nil {
		return err
	}
	defer l.Close()

	err = locker.Do(ctx, l, "nightly-report", report, locker.NoWait())
	if errors.Is(err, locker.ErrHeld) {
		fmt.Println("somebody else is at it")
		return nil
	}
	return err
}

// report stops when its context ends: then the lock is lost, or the program is told to stop.
func report(ctx context.Context, _ locker.Lease) error {
	for page := 1; page <= 3; page++ {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		fmt.Println("page", page)
	}
	return nil
}
