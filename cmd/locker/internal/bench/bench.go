// Package bench measures a lock service as a program meets it: whether a deployment is fit, and how
// far it is from its limits. What it reports comes from the events of package locker.
package bench

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/fencedlock/locker"
)

// Config says what is measured, and with how much load.
type Config struct {
	// Open opens a Locker on the service.
	Open func(context.Context) (locker.Locker, error)

	// Hold has another process hold a lock; nil where that isn't possible.
	Hold func(ctx context.Context, name string) (Process, error)

	Prefix     string        // how the names of all locks begin; nobody else has such locks
	TTL        time.Duration // of all leases; 0: the service's default
	Leases     int           // held at once
	Goroutines int           // at work at once
	Contenders int           // Lockers that want one lock
	For        time.Duration // for how long locks are acquired and released, in each of three scenarios
	Shared     bool          // others may use the service

	// Progress is called before the first scenario and after each one; nil: nobody wants to know.
	Progress func(Report)
}

// Process is another process that holds a lock.
type Process interface {
	Stop() error // stops it, as SIGSTOP does
	Kill() error // ends it at once, as SIGKILL does
	End() error  // has it release the lock, if it can, and ends it
}

// maxCycles bounds how often a scenario acquires a lock.
const maxCycles = 1_000_000

// Bounds of the load.
const (
	MaxLeases     = 100_000
	MaxGoroutines = 1_024
	MaxContenders = 256
	MaxFor        = 10 * time.Minute
	minFor        = 100 * time.Millisecond
)

// Check returns an error that says what is wrong with the flag of a bound.
func (c *Config) Check() error {
	for _, n := range []struct {
		flag             string
		value, min, most int
	}{
		{"leases", c.Leases, 1, MaxLeases},
		{"goroutines", c.Goroutines, 1, MaxGoroutines},
		{"contenders", c.Contenders, 2, MaxContenders},
	} {
		if n.value < n.min || n.value > n.most {
			return fmt.Errorf("--%s %d: want a number from %d to %d", n.flag, n.value, n.min, n.most)
		}
	}
	if c.For < minFor || c.For > MaxFor {
		return fmt.Errorf("--for %v: want a time from %v to %v", c.For, minFor, MaxFor)
	}
	return nil
}

// bench is one run.
type bench struct {
	Config
	report     Report
	guarantees locker.Guarantees
	ttl        time.Duration // in force; 0: leases never end by time
	left       error         // of a Close
}

// Run measures all scenarios, one after the other, and removes its locks. When ctx ends, it returns
// what there is, with the error of ctx. Otherwise an error says that a scenario couldn't be
// measured.
func Run(ctx context.Context, c Config) (Report, error) {
	b := &bench{Config: c}
	err := b.begin(ctx)
	for _, scenario := range []func(context.Context) error{b.alone, b.many, b.handOff, b.held, b.wake} {
		if err == nil {
			err = scenario(ctx)
		}
		if err != nil {
			break
		}
	}
	switch {
	case ctx.Err() != nil:
		err = errors.Join(ctx.Err(), b.left)
	case err == nil:
		err = b.left
	}
	return b.report, err
}

// ErrLeft says that the removal of a lock wasn't confirmed.
var ErrLeft = errors.New("a lock may be left until its TTL is over")

// close closes lockers side by side, and with them what they hold.
func (b *bench) close(lockers ...locker.Locker) {
	errs := make(chan error, len(lockers))
	var ended sync.WaitGroup
	for _, l := range lockers {
		ended.Go(func() { errs <- l.Close() })
	}
	ended.Wait()
	close(errs)
	for err := range errs {
		if err != nil && b.left == nil {
			b.left = fmt.Errorf("%w: %w", ErrLeft, err)
		}
	}
}

// patience is how long a scenario may take beyond its time, while the service doesn't answer.
const patience = 30 * time.Second

// begin opens the service for the first time, and looks whether others use it.
func (b *bench) begin(ctx context.Context) error {
	began := time.Now()
	l, err := b.Open(ctx)
	if err != nil {
		return err
	}
	opened := time.Since(began)
	b.guarantees = l.Guarantees()
	b.report = Report{
		Backend: b.guarantees.Backend,
		Machine: fmt.Sprintf("%s/%s, %d CPUs, %s", runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), runtime.Version()),
		Leases:  b.Leases, Goroutines: b.Goroutines, Contenders: b.Contenders, For: inSeconds(b.For),
		Results: []Result{}, Verdicts: []Verdict{},
	}
	if !b.Shared {
		err = foreign(ctx, l)
	}
	if err != nil {
		b.close(l)
		return err
	}
	return b.first(ctx, l, opened)
}

// first measures what a program meets when it starts, and learns the TTL.
func (b *bench) first(ctx context.Context, l locker.Locker, opened time.Duration) error {
	r, err := observe(l, locker.EventGranted)
	if err == nil {
		limited, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		var lease locker.Lease
		if lease, err = l.Acquire(limited, b.Prefix+"first", b.options()...); err == nil {
			err = lease.Release(ctx)
		}
	}
	began := time.Now()
	b.close(l)
	closed := time.Since(began)
	if err != nil {
		return err
	}
	o := r.take()
	b.ttl = o.ttl
	b.report.TTL = inSeconds(b.ttl)
	if b.Progress != nil {
		b.Progress(b.report)
	}
	b.add(Result{Scenario: "open and close", Figures: []Figure{
		span("open", opened), span("first acquire", o.acquire.quantile(1)), span("close", closed),
	}})
	return nil
}

// options are the options of each acquisition.
func (b *bench) options() []locker.Option {
	if b.TTL > 0 {
		return []locker.Option{locker.WithTTL(b.TTL)}
	}
	return nil
}

// add adds the result of a scenario and what is to be said about it.
func (b *bench) add(r Result, verdicts ...Verdict) {
	if r.Figures == nil { // JSON has an array all the same
		r.Figures = []Figure{}
	}
	b.report.Results = append(b.report.Results, r)
	b.report.Verdicts = append(b.report.Verdicts, verdicts...)
	if b.Progress != nil {
		b.Progress(b.report)
	}
}

// open opens the service with a recorder of these kinds of events.
func (b *bench) open(ctx context.Context, kinds locker.EventKind) (locker.Locker, *recorder, error) {
	l, err := b.Open(ctx)
	if err != nil {
		return nil, nil, err
	}
	r, err := observe(l, kinds)
	if err != nil {
		b.close(l)
		return nil, nil, err
	}
	return l, r, nil
}

// maxForeign is how many locks of others a service may have that nobody else seems to use.
const maxForeign = 100

// foreignLimit is how long it may take to count them.
const foreignLimit = 10 * time.Second

// ErrShared says that others use the service.
var ErrShared = errors.New("others use this service, and would feel the load: take a test installation, or give --shared")

// foreign returns ErrShared if the service has many locks, or can't be asked.
func foreign(ctx context.Context, l locker.Locker) error {
	limited, cancel := context.WithTimeout(ctx, foreignLimit)
	defer cancel()
	n := 0
	for _, err := range locker.List(limited, l, "", 0) {
		switch {
		case errors.Is(err, errors.ErrUnsupported):
			return nil // nobody can tell
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			return fmt.Errorf("%w (it isn't known whether they do: %w)", ErrShared, err)
		}
		if n++; n > maxForeign {
			return fmt.Errorf("%w (there are more than %d locks)", ErrShared, maxForeign)
		}
	}
	return nil
}
