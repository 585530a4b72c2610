package step

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
)

// Contend has n goroutines call f, each of them rounds times, with its number. The first error of a
// goroutine ends that goroutine and fails the case.
func Contend(t T, n, rounds int, f func(ctx context.Context, i int) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*Limit)
	defer cancel()
	fs := make([]func() error, n)
	for i := range fs {
		fs[i] = func() error {
			for range rounds {
				if err := f(ctx, i); err != nil {
					return err
				}
			}
			return nil
		}
	}
	Race(t, fs...)
}

// Race runs functions at the same time and waits for all of them. It fails the case if one of them
// returns an error or panics.
func Race(t T, fs ...func() error) {
	t.Helper()
	var all sync.WaitGroup
	barrier := make(chan struct{})
	results := make([]error, len(fs))
	for i, f := range fs {
		all.Go(func() {
			defer func() {
				if p := recover(); p != nil {
					results[i] = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
				}
			}()
			<-barrier
			results[i] = f()
		})
	}
	close(barrier)
	err := MustReturn(t, 6*Limit, "a function that runs at the same time", func() error {
		all.Wait()
		return errors.Join(results...)
	})
	if err != nil {
		t.Fatalf("%v", err)
	}
}
