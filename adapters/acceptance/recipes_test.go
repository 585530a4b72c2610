package acceptance

// The recipes of docs/adapters.md. TestQuotes compares both texts.

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/hibiken/asynq"
	"github.com/riverqueue/river/rivertype"
	"github.com/robfig/cron/v3"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/leader"
	"github.com/fencedlock/locker/membackend"
)

func once(l locker.Locker, name string, opts ...locker.Option) cron.JobWrapper {
	opts = append(slices.Clip(opts), locker.NoWait())
	return func(job cron.Job) cron.Job {
		return cron.FuncJob(func() {
			err := locker.Do(context.Background(), l, name, func(context.Context, locker.Lease) error {
				job.Run()
				return nil
			}, opts...)
			if err != nil && !errors.Is(err, locker.ErrHeld) {
				slog.Error("cron", "job", name, "err", err)
			}
		})
	}
}

func doTask(ctx context.Context, l locker.Locker, name string, work func(context.Context) error) error {
	done := false
	err := locker.Do(ctx, l, name, func(ctx context.Context, _ locker.Lease) error {
		err := work(ctx)
		done = err == nil
		return err
	})
	if done && errors.Is(err, locker.ErrUnconfirmed) {
		return nil // the lease was held until the work was done
	}
	return err
}

func lockTask(l locker.Locker, name func(*asynq.Task) string) asynq.MiddlewareFunc {
	return func(next asynq.Handler) asynq.Handler {
		return asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
			return doTask(ctx, l, name(task), func(ctx context.Context) error {
				return next.ProcessTask(ctx, task)
			})
		})
	}
}

func lockMessage(l locker.Locker, name func(*message.Message) string) message.HandlerMiddleware {
	return func(next message.HandlerFunc) message.HandlerFunc {
		return func(msg *message.Message) (out []*message.Message, err error) {
			defer msg.SetContext(msg.Context())
			err = doTask(msg.Context(), l, name(msg), func(ctx context.Context) error {
				msg.SetContext(ctx)
				out, err = next(msg)
				return err
			})
			return out, err
		}
	}
}

type lockJob struct {
	l    locker.Locker
	name func(*rivertype.JobRow) string
}

func (lockJob) IsMiddleware() bool { return true }

func (m lockJob) Work(ctx context.Context, job *rivertype.JobRow, work func(context.Context) error) error {
	return doTask(ctx, m.l, m.name(job), work)
}

// startManager has mgr as controller-runtime's manager.Manager, whose option LeaderElection is false.
func startManager(ctx context.Context, l locker.Locker, mgr interface{ Start(context.Context) error }) error {
	return leader.Run(ctx, l, "controllers/billing", func(ctx context.Context, _ leader.Term) error {
		return errors.Join(leader.ErrStop, mgr.Start(ctx))
	})
}

var _ rivertype.WorkerMiddleware = lockJob{}

func TestRecipeRobfigCron(t *testing.T) {
	const processes, rounds = 3, 10
	onEach(t, func(t *testing.T, s service) {
		runs := new(jobRuns)
		var jobs []cron.Job
		for range processes {
			chain := cron.NewChain(once(s.open(t), "cron/report"))
			jobs = append(jobs, chain.Then(cron.FuncJob(func() { runs.run(10 * time.Millisecond) })))
		}
		for _, job := range jobs {
			job.Run() // one after the other: the lock is free
		}
		if len(runs.starts) != processes {
			t.Errorf("%d runs of %d", len(runs.starts), processes)
		}
		var all sync.WaitGroup
		for _, job := range jobs {
			all.Go(func() {
				for range rounds {
					job.Run()
				}
			})
		}
		all.Wait()
		if runs.most != 1 {
			t.Errorf("%d jobs at once", runs.most)
		}
	})
}

const customer = "customers/42" // the lock of all tasks

// queues has the middleware of each queue around a handler that calls work.
var queues = map[string]func(l locker.Locker, work func(context.Context) error) error{
	"asynq": func(l locker.Locker, work func(context.Context) error) error {
		next := asynq.HandlerFunc(func(ctx context.Context, _ *asynq.Task) error { return work(ctx) })
		return lockTask(l, func(*asynq.Task) string { return customer })(next).ProcessTask(context.Background(), asynq.NewTask("t", nil))
	},
	"watermill": func(l locker.Locker, work func(context.Context) error) error {
		msg := message.NewMessage("id", nil)
		next := func(msg *message.Message) ([]*message.Message, error) {
			return message.Messages{msg}, work(msg.Context())
		}
		out, err := lockMessage(l, func(*message.Message) string { return customer })(next)(msg)
		if len(out) != 1 || msg.Context().Err() != nil {
			return errors.New("the result or the message's context is lost")
		}
		return err
	},
	"river": func(l locker.Locker, work func(context.Context) error) error {
		m := lockJob{l, func(*rivertype.JobRow) string { return customer }}
		return m.Work(context.Background(), &rivertype.JobRow{}, work)
	},
}

// Handlers of a queue, in several processes, work on one thing at a time, each with a lease in its
// context.
func TestRecipeQueues(t *testing.T) {
	const handlers = 5
	for what, handler := range queues {
		t.Run(what, func(t *testing.T) {
			onEach(t, func(t *testing.T, s service) {
				runs := new(jobRuns)
				var all sync.WaitGroup
				for range handlers {
					l := s.open(t)
					all.Go(func() {
						err := handler(l, func(ctx context.Context) error {
							if lease, ok := locker.LeaseFrom(ctx); !ok || lease.Err() != nil {
								t.Error("the handler has no lease")
							}
							runs.run(10 * time.Millisecond)
							return nil
						})
						if err != nil {
							t.Error(err)
						}
					})
				}
				all.Wait()
				if runs.most != 1 || len(runs.starts) != handlers {
					t.Errorf("%d runs, %d at once, want %d and one", len(runs.starts), runs.most, handlers)
				}
			})
		})
	}
}

// A task that is done isn't an error for its queue if only the removal of the lock isn't confirmed. All other errors
// are.
func TestRecipeQueuesWithoutConfirmation(t *testing.T) {
	failed := errors.New("failed")
	for what, handler := range queues {
		for name, test := range map[string]struct {
			lost       bool
			work, want error
		}{
			"done":                   {},
			"failed":                 {work: failed, want: failed},
			"failed in another lock": {work: locker.ErrUnconfirmed, want: locker.ErrUnconfirmed},
			"lost":                   {lost: true, want: locker.ErrLost},
		} {
			t.Run(what+", "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					server, link := membackend.NewServer(), membackend.NewLink()
					l := membackend.New(membackend.WithServer(server), membackend.WithLink(link))
					err := handler(l, func(ctx context.Context) error {
						if test.lost {
							server.Expire(customer)
							<-ctx.Done()
						}
						link.Cut()
						return test.work
					})
					if !errors.Is(err, test.want) {
						t.Errorf("the handler returns %v, want %v", err, test.want)
					}
					link.Heal()
					if err := l.Close(); err != nil {
						t.Errorf("Close = %v", err)
					}
				})
			})
		}
	}
}

type managerFunc func(context.Context) error

func (f managerFunc) Start(ctx context.Context) error { return f(ctx) }

// A manager starts in one of two processes. When it ends, the process's Run does so, too.
func TestRecipeManager(t *testing.T) {
	onEach(t, func(t *testing.T, s service) {
		runs := new(jobRuns)
		var all sync.WaitGroup
		for range 2 {
			l := s.open(t)
			all.Go(func() {
				err := startManager(t.Context(), l, managerFunc(func(context.Context) error { runs.run(50 * time.Millisecond); return nil }))
				if !errors.Is(err, leader.ErrStop) {
					t.Errorf("Run = %v, want %v", err, leader.ErrStop)
				}
			})
		}
		all.Wait()
		if runs.most != 1 || len(runs.starts) != 2 {
			t.Errorf("%d managers, %d at once, want two, one after the other", len(runs.starts), runs.most)
		}
	})
}
