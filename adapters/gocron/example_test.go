package gocronlocker_test

import (
	"context"
	"fmt"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/fencedlock/locker"
	gocronlocker "github.com/fencedlock/locker/adapters/gocron"
	"github.com/fencedlock/locker/membackend"
)

func ExampleTask() {
	l := membackend.New() // in a program: locker.Open(ctx, os.Getenv("LOCKER_URL"), locker.Correctness)
	defer l.Close()
	s, err := gocron.NewScheduler()
	if err != nil {
		fmt.Println(err)
		return
	}
	done := make(chan bool)
	task := gocronlocker.Task(l, "cron/report", func(ctx context.Context, lease locker.Lease) error {
		fmt.Println("a token for the storage:", lease.Token() > 0)
		close(done)
		return ctx.Err()
	})
	if _, err := s.NewJob(gocron.DurationJob(time.Hour), gocron.NewTask(task), gocron.WithStartAt(gocron.WithStartImmediately())); err != nil {
		fmt.Println(err)
		return
	}
	s.Start()
	<-done
	if err := s.Shutdown(); err != nil {
		fmt.Println(err)
	}
	// Output: a token for the storage: true
}
