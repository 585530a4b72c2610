package gocronlocker_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/google/uuid"

	"github.com/fencedlock/locker"
	gocronlocker "github.com/fencedlock/locker/adapters/gocron"
	"github.com/fencedlock/locker/membackend"
)

// The job's context ends when its lease is lost, and gocron's listener gets the loss, although the job
// itself returned nil.
func TestTaskIsStoppedWhenTheLeaseIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := membackend.NewServer()
		l := membackend.New(membackend.WithServer(server))
		defer l.Close()
		running, told := make(chan locker.Token, 1), make(chan error, 1)
		task := gocronlocker.Task(l, "report", func(ctx context.Context, lease locker.Lease) error {
			running <- lease.Token()
			<-ctx.Done()
			return nil
		})
		s, err := gocron.NewScheduler()
		if err != nil {
			t.Fatal(err)
		}
		defer shutdown(t, s)
		failed := gocron.AfterJobRunsWithError(func(_ uuid.UUID, _ string, err error) { told <- err })
		if _, err := s.NewJob(gocron.DurationJob(time.Hour), gocron.NewTask(task), gocron.WithEventListeners(failed)); err != nil {
			t.Fatal(err)
		}
		s.Start()
		if token := <-running; token <= 0 {
			t.Errorf("token = %d", token)
		}
		server.Expire("report")
		if err := <-told; !errors.Is(err, locker.ErrLost) {
			t.Errorf("gocron is told %v, want %v", err, locker.ErrLost)
		}
	})
}

func TestTaskDoesNotWait(t *testing.T) {
	l := membackend.New()
	defer l.Close()
	lease, err := l.Acquire(t.Context(), "report")
	if err != nil {
		t.Fatal(err)
	}
	task := gocronlocker.Task(l, "report", func(context.Context, locker.Lease) error { return nil })
	if err := task(t.Context()); !errors.Is(err, locker.ErrHeld) {
		t.Errorf("Task while the lock is held = %v, want %v", err, locker.ErrHeld)
	}
	if err := lease.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := task(t.Context()); err != nil {
		t.Errorf("Task while the lock is free = %v", err)
	}
}
