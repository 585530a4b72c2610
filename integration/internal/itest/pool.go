//go:build unix

package itest

import (
	"context"
	"flag"
	"regexp"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/fencedlock/locker/conformance"
)

// Pool is services of one kind, for cases that run in parallel. Each case has a service of its own:
// the case may kill the service, and count everything that happens there. The one that was used last
// is used first.
//
// The services for cases are started before the first case runs, and others when they are needed: on
// two processors that start servers, others answer too late for leases of a second.
type Pool[S any] struct {
	First  S
	start  func(context.Context) (S, error)
	places chan struct{} // one for each that is taken
	filled sync.Once

	mu    sync.Mutex
	cases int // that are to run side by side
	idle  []S
	taken map[string]S // by the names of tests
}

// LazyPool starts the first service of a pool when the first test of the run needs it.
func LazyPool[S any](image string, start func(context.Context, string) (S, error)) func(*testing.T) *Pool[S] {
	return Lazily(image, func(ctx context.Context, image string) (*Pool[S], error) {
		first, err := start(ctx, image)
		another := func(ctx context.Context) (S, error) { return start(ctx, image) }
		return &Pool[S]{First: first, start: another, places: make(chan struct{}, parallel()), idle: []S{first}, taken: make(map[string]S)}, err
	})
}

// Take gives a test a service until the test ends.
func (p *Pool[S]) Take(t conformance.T) S {
	t.Helper()
	p.places <- struct{}{}
	t.Cleanup(func() { <-p.places })
	s, err := p.next(t.Context())
	if err != nil {
		t.Fatalf("%v", err)
	}
	p.mu.Lock()
	p.taken[t.Name()] = s
	p.mu.Unlock()
	t.Cleanup(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.taken, t.Name())
		p.idle = append(p.idle, s)
	})
	return s
}

func (p *Pool[S]) next(ctx context.Context) (S, error) {
	p.mu.Lock()
	if n := len(p.idle); n > 0 {
		defer p.mu.Unlock()
		s := p.idle[n-1]
		p.idle = p.idle[:n-1]
		return s, nil
	}
	p.mu.Unlock()
	return p.another(ctx)
}

func (p *Pool[S]) another(ctx context.Context) (S, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Minute)
	defer cancel()
	return p.start(ctx)
}

// fill starts the services that the cases need, once. A service that can't be started is reported to
// the case that needs it.
func (p *Pool[S]) fill(ctx context.Context) {
	p.filled.Do(func() {
		p.mu.Lock()
		missing := min(p.cases, cap(p.places), parallel()) - len(p.idle)
		p.mu.Unlock()
		var all sync.WaitGroup
		for range missing {
			all.Go(func() {
				if s, err := p.another(ctx); err == nil {
					p.mu.Lock()
					defer p.mu.Unlock()
					p.idle = append(p.idle, s)
				}
			})
		}
		all.Wait()
	})
}

// parallel is how many tests of this package run at the same time.
func parallel() int {
	n, _ := strconv.Atoi(flag.Lookup("test.parallel").Value.String())
	return n
}

// Cases converts the cases of one service into cases that run on the service that their test has
// taken. of returns the same cases for all services of the pool.
func (p *Pool[S]) Cases(of func(S) []conformance.Case) []conformance.Case {
	cases := of(p.First)
	for i := range cases {
		cases[i].Run = func(t conformance.T, h *conformance.Harness) {
			p.mu.Lock()
			s := p.taken[t.Name()]
			p.mu.Unlock()
			of(s)[i].Run(t, h)
		}
	}
	return cases
}

// SideBySide returns a harness whose cases run in parallel, as many at a time as the run and the
// pool allow. setup prepares the harness of one case, which gets a service of its own.
func (p *Pool[S]) SideBySide(setup func(conformance.T, *conformance.Harness, S)) conformance.Harness {
	return conformance.Harness{
		Wrap: func(t *testing.T, run func(t *testing.T)) {
			if ofCase(t) {
				p.mu.Lock()
				p.cases++
				p.mu.Unlock()
				t.Parallel() // returns when all cases of this run have come here
				explainFailure(t)
			}
			run(t)
		},
		Setup: func(t conformance.T, h *conformance.Harness) {
			s := p.First
			if ofCase(t) {
				p.fill(t.Context())
				s = p.Take(t)
			}
			setup(t, h, s)
		},
	}
}

var isCase = regexp.MustCompile(`(^|/)[A-Z]+[0-9][^/]*$`)

// ofCase reports whether a test runs one case or one search, and not the whole suite.
func ofCase(t conformance.T) bool {
	return isCase.MatchString(t.Name())
}
