package acceptance

// The recipes of docs/adapters.md. TestQuotes compares both texts.

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/hibiken/asynq"
	"github.com/riverqueue/river/rivertype"
	"github.com/robfig/cron/v3"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/leader"
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

func lockTask(l locker.Locker, name func(*asynq.Task) string) asynq.MiddlewareFunc {
	return func(next asynq.Handler) asynq.Handler {
		return asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
			return locker.Do(ctx, l, name(task), func(ctx context.Context, _ locker.Lease) error {
				return next.ProcessTask(ctx, task)
			})
		})
	}
}

func lockMessage(l locker.Locker, name func(*message.Message) string) message.HandlerMiddleware {
	return func(next message.HandlerFunc) message.HandlerFunc {
		return func(msg *message.Message) (out []*message.Message, err error) {
			defer msg.SetContext(msg.Context())
			err = locker.Do(msg.Context(), l, name(msg), func(ctx context.Context, _ locker.Lease) error {
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
	return locker.Do(ctx, m.l, m.name(job), func(ctx context.Context, _ locker.Lease) error {
		return work(ctx)
	})
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

// Handlers of a queue, in several processes, work on one thing at a time, each with a lease in its
// context.
func TestRecipeQueues(t *testing.T) {
	const name, handlers = "customers/42", 5
	for what, handler := range map[string]func(locker.Locker, func(context.Context)) error{
		"asynq": func(l locker.Locker, work func(context.Context)) error {
			next := asynq.HandlerFunc(func(ctx context.Context, _ *asynq.Task) error { work(ctx); return nil })
			return lockTask(l, func(*asynq.Task) string { return name })(next).ProcessTask(context.Background(), asynq.NewTask("t", nil))
		},
		"watermill": func(l locker.Locker, work func(context.Context)) error {
			msg := message.NewMessage("id", nil)
			next := func(msg *message.Message) ([]*message.Message, error) {
				work(msg.Context())
				return message.Messages{msg}, nil
			}
			out, err := lockMessage(l, func(*message.Message) string { return name })(next)(msg)
			if len(out) != 1 || msg.Context().Err() != nil {
				return errors.New("the result or the message's context is lost")
			}
			return err
		},
		"river": func(l locker.Locker, work func(context.Context)) error {
			m := lockJob{l, func(*rivertype.JobRow) string { return name }}
			return m.Work(context.Background(), &rivertype.JobRow{}, func(ctx context.Context) error { work(ctx); return nil })
		},
	} {
		t.Run(what, func(t *testing.T) {
			onEach(t, func(t *testing.T, s service) {
				runs := new(jobRuns)
				var all sync.WaitGroup
				for range handlers {
					l := s.open(t)
					all.Go(func() {
						err := handler(l, func(ctx context.Context) {
							if lease, ok := locker.LeaseFrom(ctx); !ok || lease.Err() != nil {
								t.Error("the handler has no lease")
							}
							runs.run(10 * time.Millisecond)
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
