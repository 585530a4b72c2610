package gocronlocker_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/fencedlock/locker"
	gocronlocker "github.com/fencedlock/locker/adapters/gocron"
	"github.com/fencedlock/locker/leader"
	"github.com/fencedlock/locker/membackend"
)

var _ gocron.Elector = (*gocronlocker.Elector)(nil)

// The leader's scheduler runs the jobs, in a change of the leader as well: each period has one run.
func TestElector(t *testing.T) {
	const periods = 200
	synctest.Test(t, func(t *testing.T) {
		server := membackend.NewServer()
		runs := make([]int, 2)
		var electors []*gocronlocker.Elector
		var schedulers []gocron.Scheduler
		for i := range runs {
			l := membackend.New(membackend.WithServer(server))
			defer l.Close()
			e, err := gocronlocker.NewElector(l, "cron", leader.WithTTL(10*time.Second))
			if err != nil {
				t.Fatal(err)
			}
			defer e.Close()
			electors = append(electors, e)
			schedulers = append(schedulers, schedule(t, time.Minute, time.Minute, func() { runs[i]++ }, gocron.WithDistributedElector(e)))
			if _, err := electors[0].Wait(t.Context()); err != nil { // so the first one is elected first
				t.Fatal(err)
			}
		}
		time.Sleep(periods/2*time.Minute + 30*time.Second)
		if err := electors[1].IsLeader(t.Context()); !errors.Is(err, gocronlocker.ErrNotLeader) {
			t.Errorf("IsLeader of the second = %v, want %v", err, gocronlocker.ErrNotLeader)
		}
		if err := electors[0].Close(); err != nil {
			t.Error(err)
		}
		time.Sleep(periods / 2 * time.Minute)
		shutdown(t, schedulers...)
		if runs[0] != periods/2 || runs[1] != periods/2 {
			t.Errorf("runs = %v, want %d before the change of the leader, and as many after it", runs, periods/2)
		}
		if err := electors[0].IsLeader(t.Context()); !errors.Is(err, gocronlocker.ErrNotLeader) || !errors.Is(err, locker.ErrClosed) {
			t.Errorf("IsLeader after Close = %v, want %v and %v", err, gocronlocker.ErrNotLeader, locker.ErrClosed)
		}
	})
}

func TestElectorNamesMistakes(t *testing.T) {
	l := membackend.New()
	defer l.Close()
	if e, err := gocronlocker.NewElector(l, "cron", leader.WithTTL(-1)); e != nil || !errors.Is(err, locker.ErrOption) {
		t.Errorf("NewElector with a bad TTL = %v, %v, want ErrOption", e, err)
	}
	if e, err := gocronlocker.NewElector(l, ""); e != nil || !errors.Is(err, locker.ErrName) {
		t.Errorf("NewElector without a name = %v, %v, want ErrName", e, err)
	}
}

// gocron tells nobody why it skips a run, so the error names what the service has refused.
func TestElectorNamesFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := membackend.NewServer()
		l := membackend.New(membackend.WithServer(server))
		defer l.Close()
		held, err := l.Acquire(t.Context(), "cron")
		if err != nil {
			t.Fatal(err)
		}
		e, err := gocronlocker.NewElector(l, "cron")
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if err := e.IsLeader(ended); err != gocronlocker.ErrNotLeader { //nolint:errorlint // nothing is added
			t.Errorf("IsLeader while another holds the lock = %v, want %v alone", err, gocronlocker.ErrNotLeader)
		}
		if err := held.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := e.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := e.IsLeader(ended); err != nil {
			t.Errorf("IsLeader of the leader = %v", err)
		}
		refused := errors.New("wrong password")
		server.Fail(refused)
		time.Sleep(time.Minute)
		if err := e.IsLeader(t.Context()); !errors.Is(err, gocronlocker.ErrNotLeader) || !errors.Is(err, refused) {
			t.Errorf("IsLeader while the service fails = %v, want %v and %v", err, gocronlocker.ErrNotLeader, refused)
		}
		server.Fail(nil)
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
}

func ExampleNewElector() {
	l := membackend.New() // in a program: locker.Open(ctx, os.Getenv("LOCKER_URL"), locker.Correctness)
	defer l.Close()
	elector, err := gocronlocker.NewElector(l, "cron")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer elector.Close()
	s, err := gocron.NewScheduler(gocron.WithDistributedElector(elector))
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err := elector.Wait(context.Background()); err != nil { // a program need not wait
		fmt.Println(err)
		return
	}
	done := make(chan bool)
	_, err = s.NewJob(gocron.OneTimeJob(gocron.OneTimeJobStartImmediately()), gocron.NewTask(func() {
		if term, leads := elector.Leads(); leads {
			fmt.Println("a term for the storage:", term.Number > 0)
		}
		close(done)
	}))
	if err != nil {
		fmt.Println(err)
		return
	}
	s.Start()
	<-done
	if err := s.Shutdown(); err != nil {
		fmt.Println(err)
	}
	// Output: a term for the storage: true
}
