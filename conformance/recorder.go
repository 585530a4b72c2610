package conformance

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
)

// recorder is a T outside of a test binary: it records what a case logs, and whether the case
// failed.
type recorder struct {
	name   string
	ctx    context.Context
	cancel context.CancelFunc

	mu       sync.Mutex
	failed   bool
	log      strings.Builder
	cleanups []func()
}

var _ T = (*recorder)(nil)

// record runs f as a test is run: in its own goroutine, which Fatalf ends. The clean-ups follow,
// the last one first. A panic is a failure.
func record(ctx context.Context, name string, f func(t T)) *recorder {
	r := &recorder{name: name}
	r.ctx, r.cancel = context.WithCancel(ctx)
	r.run(func() { f(r) })
	r.cancel()
	for clean := r.nextCleanup(); clean != nil; clean = r.nextCleanup() {
		r.run(clean)
	}
	return r
}

// run runs f in its own goroutine and waits until f has returned, panicked, or called Fatalf.
func (r *recorder) run(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if p := recover(); p != nil {
				r.Errorf("panic: %v\n%s", p, debug.Stack())
			}
		}()
		f()
	}()
	<-done
}

func (r *recorder) nextCleanup() func() {
	r.mu.Lock()
	defer r.mu.Unlock()
	last := len(r.cleanups) - 1
	if last < 0 {
		return nil
	}
	clean := r.cleanups[last]
	r.cleanups = r.cleanups[:last]
	return clean
}

func (r *recorder) Name() string             { return r.name }
func (r *recorder) Helper()                  {}
func (r *recorder) Context() context.Context { return r.ctx }

func (r *recorder) Cleanup(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cleanups = append(r.cleanups, f)
}

func (r *recorder) TempDir() string {
	dir, err := os.MkdirTemp("", "conformance-")
	if err != nil {
		r.Fatalf("no temporary directory: %v", err)
	}
	r.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			r.Errorf("temporary directory: %v", err)
		}
	})
	return dir
}

func (r *recorder) Logf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fmt.Fprintf(&r.log, format+"\n", args...)
}

func (r *recorder) Errorf(format string, args ...any) {
	r.Logf(format, args...)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = true
}

// Fatalf ends the calling goroutine, so only the case's own goroutine may call it, as with
// testing.T.
func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}

func (r *recorder) Failed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed
}

func (r *recorder) text() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.log.String()
}
