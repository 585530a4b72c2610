package conformance

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance/process"
	"github.com/fencedlock/locker/conformance/step"
)

var stressCases = []Case{
	{ID: "G53", Name: "hundred-contenders-count-exactly", Run: hundredContenders,
		Why: "a counter that isn't atomic shows every moment at which two holders were in the " +
			"critical section"},
	{ID: "G54", Name: "processes-count-exactly", Run: processesCount, Hooks: []Hook{HookProcess},
		Why: "processes share nothing but the service, and their holders must exclude each other " +
			"too"},
	{ID: "G55", Name: "fenced-register-is-linearizable", Run: linearizable,
		Needs: locker.FencingUntilDataLoss,
		Why: "under load, with leases that are lost and holders that write too late, no stale " +
			"write may be accepted"},
	{ID: "G56", Name: "small-pool-does-not-deadlock", Run: smallPool,
		Why: "a holder that needs a connection to renew or release must not wait for a connection " +
			"that the waiters keep"},
	{ID: "G57", Name: "everything-is-back-at-the-baseline", Run: baseline,
		Why: "what an acquisition leaves, such as a goroutine or a key, is a leak in a service " +
			"that runs for months"},
}

// hundredContenders reads and writes the counter by atomic operations, so that the race detector,
// which knows nothing of the lock, reports nothing. Between the read and the write another
// goroutine may come in.
func hundredContenders(t T, h *Harness) {
	const contenders = 100
	name := step.LockName(t)
	lockers := []locker.Locker{h.OpenLocker(t), h.OpenLocker(t), h.OpenLocker(t), h.OpenLocker(t)}
	var counter, inside atomic.Int64
	rounds := max(h.rounds(500)/contenders, 1)
	step.Contend(t, contenders, rounds, func(ctx context.Context, i int) error {
		return locker.Do(ctx, lockers[i%len(lockers)], name, func(context.Context, locker.Lease) error {
			if n := inside.Add(1); n != 1 {
				return fmt.Errorf("%d are in the critical section", n)
			}
			n := counter.Load()
			yield(3)
			counter.Store(n + 1)
			inside.Add(-1)
			return nil
		})
	})
	if n := counter.Load(); n != int64(contenders*rounds) {
		t.Errorf("the counter is %d, want %d", n, contenders*rounds)
	}
}

func processesCount(t T, h *Harness) {
	const processes, contenders = 4, 25
	rounds := max(h.rounds(200)/(processes*contenders), 1)
	name, file := step.LockName(t), filepath.Join(t.TempDir(), "counter")
	if err := os.WriteFile(file, []byte("0"), 0o600); err != nil {
		t.Fatalf("%v", err)
	}
	all := make([]process.Process, processes)
	for i := range all {
		all[i] = h.Process(t)
	}
	step.Contend(t, processes, 1, func(ctx context.Context, i int) error {
		answer, err := all[i].Do(ctx, process.Command{Verb: process.Count, Name: name, File: file, Contenders: contenders, Rounds: rounds})
		if err == nil && answer.Error != "" {
			err = errors.New(answer.Error)
		}
		return err
	})
	if n, err := process.ReadNumber(file); err != nil || n != processes*contenders*rounds {
		t.Errorf("the counter is %d (%v), want %d", n, err, processes*contenders*rounds)
	}
}

func smallPool(t T, h *Harness) {
	open := h.Open
	if h.Narrow != nil {
		open = h.Narrow
	}
	l, other := step.CloseAtEnd(t, open(t)), h.OpenLocker(t)
	names := []string{step.LockName(t), step.LockName(t), step.LockName(t)}
	const contenders = 8
	step.Contend(t, contenders, h.rounds(1000)/contenders, func(ctx context.Context, i int) error {
		name := names[i%len(names)]
		if i%4 == 0 { // a caller that doesn't wait, which mostly gets nothing
			lease, err := tryInBackground(ctx, l, name)
			if errors.Is(err, locker.ErrHeld) {
				return nil
			} else if err != nil {
				return err
			}
			return lease.Release(ctx)
		}
		return locker.Do(ctx, l, name, func(context.Context, locker.Lease) error {
			runtime.Gosched()
			return nil
		})
	})
	for _, name := range names {
		step.FreeWithin(t, h.Slack, other, name)
	}
	h.WaitNoResidue(t)
}

// baseline looks at the service while the Lockers are still open, and at the goroutines then and
// after the Lockers are closed. After a tenth of the rounds everything runs that a Locker needs while
// it is open, but for some goroutines that come and go.
func baseline(t T, h *Harness) {
	const more = 20
	left := offspring(t.Context(), t.Name(), func(labels context.Context) {
		l, other, name := h.Open(t), h.Open(t), step.LockName(t)
		defer l.Close()
		defer other.Close()
		rounds, before := max(h.rounds(1000), 200), 0 // fewer would not show a leak
		for i := range rounds {
			if i == rounds/10 {
				before = inAll(running(labels))
			}
			churn(t, l, other, name, i)
		}
		step.FreeWithin(t, h.Slack, other, name)
		h.WaitNoResidue(t)
		step.Eventually(t, h.RemovalLimit(), func() error {
			stacks := running(labels)
			if n := inAll(stacks); n > before+more {
				step.Pass(t, h.Settle) // a look at many goroutines takes its time
				return fmt.Errorf("after %d rounds there are %d goroutines, and after a tenth of them there were %d:\n%s",
					rounds, n, before, strings.Join(stacks, "\n\n"))
			}
			return nil
		})
		step.Close(t, l)
		step.Close(t, other)
	})
	step.Eventually(t, step.Limit/2, func() error {
		if stacks := left(); len(stacks) > 0 {
			return errors.New("goroutines are left:\n" + strings.Join(stacks, "\n\n"))
		}
		return nil
	})
}

// churn has l acquire the lock, while other fails to acquire it in one of several ways.
func churn(t T, l, other locker.Locker, name string, i int) {
	lease := step.Acquire(t, l, name)
	switch i % 4 {
	case 0:
		step.WantHeld(t, other, name)
	case 1:
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*time.Microsecond)
		_, _ = step.AcquireContext(t, ctx, other, name)
		cancel()
	case 2:
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, _ = step.AcquireContext(t, ctx, other, name)
	}
	step.Release(t, lease)
}
