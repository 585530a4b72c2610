package redlockbackend_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker/redlockbackend"
)

// As many workers as tasks run at a time; some stay for the next tasks, and end when none come.
func TestWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most, tasks = 4, 10
		w := redlockbackend.NewWorkers(most)
		var all sync.WaitGroup
		together := func(n int) {
			all.Add(n)
			for range n {
				w.Run(func() {
					all.Done()
					all.Wait() // returns only if all run
				})
			}
			synctest.Wait()
		}
		together(tasks)
		if n := w.Idle(); n != most {
			t.Errorf("%d workers stay, want %d", n, most)
		}
		for range 5 { // one is needed, the others aren't
			time.Sleep(redlockbackend.WorkerStays * 3 / 4)
			if w.Idle() == 0 {
				t.Error("the worker that is needed has not stayed")
			}
			together(1)
		}
		if n := w.Idle(); n != 1 {
			t.Errorf("%d workers stay where one is needed", n)
		}
		time.Sleep(3 * redlockbackend.WorkerStays)
		synctest.Wait()
		if n := w.Idle(); n != 0 {
			t.Errorf("%d workers stay where none is needed", n)
		}
		together(tasks)
		w.Close()
		together(tasks) // still runs
		if err := w.Wait(t.Context()); err != nil || w.Idle() != 0 {
			t.Errorf("Wait = %v, and %d workers stay after Close, want none", err, w.Idle())
		}
	})
}
