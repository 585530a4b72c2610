package acceptance

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/fencedlock/locker"
	gocronlocker "github.com/fencedlock/locker/adapters/gocron"
)

// jobRuns is what a job in several schedulers has done.
type jobRuns struct {
	mu            sync.Mutex
	running, most int
	starts        []time.Time
}

func (r *jobRuns) run(work time.Duration) {
	r.mu.Lock()
	r.running++
	r.most = max(r.most, r.running)
	r.starts = append(r.starts, time.Now())
	r.mu.Unlock()
	time.Sleep(work)
	r.mu.Lock()
	r.running--
	r.mu.Unlock()
}

// count returns how many runs there were.
func (r *jobRuns) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.starts)
}

// waitFor waits for so many more runs.
func (r *jobRuns) waitFor(t *testing.T, more int) {
	t.Helper()
	before := r.count()
	for end := time.Now().Add(20 * time.Second); r.count() < before+more; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d runs in 20 s, want %d", r.count()-before, more)
		}
	}
}

// A job in two schedulers, whose runs overlap all the time, never runs twice at once.
func TestGocronNeverTwiceAtOnce(t *testing.T) {
	const period, periods, work = 100 * time.Millisecond, 50, 75 * time.Millisecond
	onEach(t, func(t *testing.T, s service) {
		runs := new(jobRuns)
		calls := twoSchedulers(t, s, period, periods, func() { runs.run(work) })
		t.Logf("%d runs in %d periods, %d refused", len(calls.grants), periods, calls.refused)
		if runs.most != 1 {
			t.Errorf("%d runs at once", runs.most)
		}
		if len(calls.grants) < periods/10 || calls.refused < periods/10 { // also on a busy machine
			t.Errorf("%d runs in %d periods, %d refused: this test shows nothing", len(calls.grants), periods, calls.refused)
		}
	})
}

// A short job in two schedulers runs once in a period with a minimum hold, and more often without one. A
// machine that stalls may miss a run or move one, so a tenth is allowed for that; the module of the
// adapter has the same test with a clock that doesn't stall, and no allowance.
func TestGocronMinHold(t *testing.T) {
	const period, minHold, periods = 200 * time.Millisecond, 125 * time.Millisecond, 200
	onEach(t, func(t *testing.T, s service) {
		grants := twoSchedulers(t, s, period, periods, func() {}, locker.WithMinHold(minHold)).grants
		t.Logf("%d runs in %d periods with a minimum hold", len(grants), periods)
		if n := len(grants); n < periods-periods/10 || n > periods+periods/10 {
			t.Errorf("%d runs in %d periods with a minimum hold", n, periods)
		}
		for i := 1; i < len(grants); i++ {
			if apart := grants[i].returned.Sub(grants[i-1].called); apart < minHold {
				t.Errorf("run %d is %v after the one before, want at least %v", i, apart, minHold)
			}
		}
		const fewer = periods / 5
		without := twoSchedulers(t, s, period, fewer, func() {}).grants
		t.Logf("%d runs in %d periods without one", len(without), fewer)
		if n := len(without); n < fewer+fewer/4 {
			t.Errorf("%d runs in %d periods without a minimum hold, want nearly two in each: else this test shows nothing", n, fewer)
		}
	})
}

// The scheduler of the process that leads runs the job alone.
func TestGocronElector(t *testing.T) {
	const period, enough = 50 * time.Millisecond, 20
	onEach(t, func(t *testing.T, s service) {
		var runs [2]jobRuns
		var electors [2]*gocronlocker.Elector
		for i := range electors {
			e, err := gocronlocker.NewElector(s.open(t), "cron")
			if err != nil {
				t.Fatal(err)
			}
			defer e.Close()
			scheduler := newScheduler(t, gocron.WithDistributedElector(e))
			if _, err := scheduler.NewJob(gocron.DurationJob(period), gocron.NewTask(func() { runs[i].run(0) })); err != nil {
				t.Fatal(err)
			}
			scheduler.Start()
			electors[i] = e
			if _, err := electors[0].Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		runs[0].waitFor(t, enough)
		if err := electors[0].Close(); err != nil {
			t.Error(err)
		}
		if _, err := electors[1].Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		changed := time.Now()
		runs[1].waitFor(t, enough)
		late := 0
		runs[0].mu.Lock()
		for _, start := range runs[0].starts {
			if start.After(changed) {
				late++
			}
		}
		runs[0].mu.Unlock()
		if late > enough/5 { // gocron has asked before the change, and the job begins after it
			t.Errorf("%d runs of scheduler 0 after the election of the other", late)
		}
	})
}

// lockCalls is what gocron's calls of Lock gave.
type lockCalls struct {
	mu      sync.Mutex
	grants  []grant
	refused int
}

type grant struct{ called, returned time.Time }

// recorder is a Locker of gocron that notes its calls.
type recorder struct {
	gocron.Locker
	calls *lockCalls
}

func (r recorder) Lock(ctx context.Context, key string) (gocron.Lock, error) {
	called := time.Now()
	lock, err := r.Locker.Lock(ctx, key)
	r.calls.mu.Lock()
	defer r.calls.mu.Unlock()
	if err == nil {
		r.calls.grants = append(r.calls.grants, grant{called, time.Now()})
	} else {
		r.calls.refused++
	}
	return lock, err
}

// newScheduler makes a scheduler, which the test shuts down.
func newScheduler(t *testing.T, opts ...gocron.SchedulerOption) gocron.Scheduler {
	t.Helper()
	s, err := gocron.NewScheduler(opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Shutdown(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// twoSchedulers runs a job in two schedulers for some periods, and returns what their locks gave. The second one's
// runs are a quarter of a period behind the first one's.
func twoSchedulers(
	t *testing.T, s service, period time.Duration, periods int, job func(),
	opts ...locker.Option,
) *lockCalls {
	t.Helper()
	calls := new(lockCalls)
	var schedulers []gocron.Scheduler
	for range 2 {
		once := recorder{gocronlocker.NewLocker(s.open(t), opts...), calls}
		schedulers = append(schedulers, newScheduler(t, gocron.WithDistributedLocker(once)))
	}
	start := time.Now().Add(time.Second) // gocron refuses a start in the past
	for i, scheduler := range schedulers {
		first := gocron.WithStartAt(gocron.WithStartDateTime(start.Add(time.Duration(i) * period / 4)))
		if _, err := scheduler.NewJob(gocron.DurationJob(period), gocron.NewTask(job), gocron.WithName("report"), first); err != nil {
			t.Fatal(err)
		}
		scheduler.Start()
	}
	time.Sleep(time.Until(start.Add(time.Duration(periods)*period - period/8)))
	for _, scheduler := range schedulers {
		if err := scheduler.StopJobs(); err != nil {
			t.Error(err)
		}
	}
	return calls
}
