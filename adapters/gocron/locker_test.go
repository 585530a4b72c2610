package gocronlocker_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/google/uuid"

	"github.com/fencedlock/locker"
	gocronlocker "github.com/fencedlock/locker/adapters/gocron"
	"github.com/fencedlock/locker/membackend"
)

// schedule starts a scheduler with one job every period, whose first run is after first.
func schedule(t *testing.T, first, period time.Duration, run any, opts ...gocron.SchedulerOption) gocron.Scheduler {
	t.Helper()
	s, err := gocron.NewScheduler(opts...)
	if err != nil {
		t.Fatal(err)
	}
	start := gocron.WithStartAt(gocron.WithStartDateTime(time.Now().Add(first)))
	if _, err := s.NewJob(gocron.DurationJob(period), gocron.NewTask(run), gocron.WithName("report"), start); err != nil {
		t.Fatal(err)
	}
	s.Start()
	return s
}

func shutdown(t *testing.T, schedulers ...gocron.Scheduler) {
	t.Helper()
	for _, s := range schedulers {
		if err := s.Shutdown(); err != nil {
			t.Error(err)
		}
	}
}

// A job that takes three quarters of its period runs in one of two processes at a time, and is renewed
// for longer than its TTL.
func TestNeverTwiceAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := membackend.NewServer()
		var running, runs, most int
		mutex := make(chan struct{}, 1)
		job := func() {
			mutex <- struct{}{}
			running++
			runs++
			most = max(most, running)
			<-mutex
			time.Sleep(45 * time.Second)
			mutex <- struct{}{}
			running--
			<-mutex
		}
		var schedulers []gocron.Scheduler
		for _, first := range []time.Duration{time.Minute, 80 * time.Second} {
			l := membackend.New(membackend.WithServer(server))
			defer l.Close()
			withLocker := gocron.WithDistributedLocker(gocronlocker.NewLocker(l, locker.WithTTL(6*time.Second)))
			schedulers = append(schedulers, schedule(t, first, time.Minute, job, withLocker))
		}
		time.Sleep(200*time.Minute + 59*time.Second)
		shutdown(t, schedulers...)
		if most != 1 || runs != 200 {
			t.Errorf("%d runs, up to %d at once, want 200 in 200 periods, and one at once", runs, most)
		}
	})
}

// Two schedulers start a short job a quarter of a minute apart. With a minimum hold it runs once in each
// period, and without one it runs in each process.
func TestMinHold(t *testing.T) {
	const periods = 200
	for _, tc := range []struct {
		opts []locker.Option
		want int64
	}{
		{[]locker.Option{locker.WithMinHold(30 * time.Second)}, periods},
		{nil, 2 * periods},
	} {
		synctest.Test(t, func(t *testing.T) {
			server := membackend.NewServer()
			var runs atomic.Int64
			var schedulers []gocron.Scheduler
			for _, first := range []time.Duration{time.Minute, 75 * time.Second} {
				l := membackend.New(membackend.WithServer(server))
				defer l.Close()
				withLocker := gocron.WithDistributedLocker(gocronlocker.NewLocker(l, tc.opts...))
				schedulers = append(schedulers, schedule(t, first, time.Minute, func() { runs.Add(1) }, withLocker))
			}
			time.Sleep(periods*time.Minute + 59*time.Second)
			shutdown(t, schedulers...)
			if n := runs.Load(); n != tc.want {
				t.Errorf("%d runs in %d periods, want %d", n, periods, tc.want)
			}
		})
	}
}

// gocron skips a run when there is no lock, and AfterLockError learns why.
func TestLockErrors(t *testing.T) {
	l := membackend.New()
	defer l.Close()
	held, err := l.Acquire(t.Context(), "report")
	if err != nil {
		t.Fatal(err)
	}
	defer held.Release(t.Context())
	for _, tc := range []struct {
		name string
		opts []locker.Option
		want error
	}{
		{"report", nil, locker.ErrHeld},
		{"", nil, locker.ErrName},
		{"other", []locker.Option{locker.WithTTL(-1)}, locker.ErrOption},
	} {
		lock, err := gocronlocker.NewLocker(l, tc.opts...).Lock(t.Context(), tc.name)
		if lock != nil || !errors.Is(err, tc.want) {
			t.Errorf("Lock(%q) = %v, %v, want an error that matches %v", tc.name, lock, err, tc.want)
		}
	}
	told := make(chan error, 1)
	s, err := gocron.NewScheduler(gocron.WithDistributedLocker(gocronlocker.NewLocker(l)))
	if err != nil {
		t.Fatal(err)
	}
	defer shutdown(t, s)
	_, err = s.NewJob(gocron.OneTimeJob(gocron.OneTimeJobStartImmediately()), gocron.NewTask(func() { t.Error("the job runs") }),
		gocron.WithName("report"), gocron.WithEventListeners(gocron.AfterLockError(func(_ uuid.UUID, _ string, err error) { told <- err })))
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	if err := <-told; !errors.Is(err, locker.ErrHeld) {
		t.Errorf("AfterLockError is told %v, want %v", err, locker.ErrHeld)
	}
}

// gocron unlocks with the job's context, which is over after a shutdown.
func TestUnlockWithAnEndedContext(t *testing.T) {
	l := membackend.New()
	defer l.Close()
	ctx, cancel := context.WithCancel(t.Context())
	lock, err := gocronlocker.NewLocker(l).Lock(ctx, "report")
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := lock.Unlock(ctx); err != nil {
		t.Errorf("Unlock = %v", err)
	}
	if _, err := locker.TryAcquire(t.Context(), l, "report"); err != nil {
		t.Errorf("after Unlock: %v, want the lock to be free", err)
	}
}
