package kit_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker/driver/kit"
)

func TestTasksFinishBeforeClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tasks := kit.NewTasks()
		var left error
		tasks.Go(func(ctx context.Context) {
			time.Sleep(time.Second)
			left = ctx.Err()
			if tasks.Go(func(context.Context) { t.Error("a task has begun after Close") }) {
				t.Error("Go = true after Close")
			}
		})
		began := time.Now()
		if err := tasks.Close(t.Context()); err != nil || left != nil || time.Since(began) != time.Second {
			t.Errorf("Close = %v after %v with a task whose context was %v, want it to wait for the task", err, time.Since(began), left)
		}
		matches(t, "the context after Close", context.Cause(tasks.Context()), kit.ErrClosing)
		if err := tasks.Close(t.Context()); err != nil {
			t.Errorf("the second Close = %v", err)
		}
	})
}

func TestTasksThatAreSlowToClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tasks := kit.NewTasks()
		for range 3 {
			tasks.Go(func(ctx context.Context) {
				_ = hang(ctx)
				matches(t, "the context of a task", context.Cause(ctx), kit.ErrClosing)
				time.Sleep(time.Second)
			})
		}
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, errCause)
		defer cancel()
		began := time.Now()
		matches(t, "Close", tasks.Close(ctx), errCause)
		if d := time.Since(began); d != time.Minute {
			t.Errorf("Close took %v, want all of its time", d)
		}
		waited := make(chan error)
		for range 2 { // several may wait
			go func() { waited <- tasks.Wait(t.Context()) }()
		}
		for range 2 {
			if err := <-waited; err != nil || time.Since(began) != time.Minute+time.Second {
				t.Errorf("Wait = %v after %v, want it to wait for the tasks", err, time.Since(began))
			}
		}
	})
}

func TestTasksThatAreStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tasks := kit.NewTasks()
		ended := false
		tasks.Go(func(ctx context.Context) {
			_ = hang(ctx)
			time.Sleep(time.Second)
			ended = true
		})
		tasks.Stop(errCause)
		matches(t, "the context", context.Cause(tasks.Context()), errCause)
		if tasks.Go(func(context.Context) {}) {
			t.Error("Go = true after Stop")
		}
		if err := tasks.Wait(t.Context()); err != nil || !ended {
			t.Errorf("Wait = %v, the task has ended: %v", err, ended)
		}
	})
}
