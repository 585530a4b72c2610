package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fencedlock/locker"
)

const (
	// wakeLate is how much later than the guarantees say a waiter may get the lock on a busy
	// machine, before that is worth a word.
	wakeLate = time.Second

	// wakeLimit is how much longer than that it is waited for.
	wakeLimit = 20 * time.Second

	// waitLimit is how long it may take until the service knows of the waiter.
	waitLimit = 5 * time.Second
)

// wake measures how long the lock of a process that has stopped stays. Where leases never end by
// time it is the lock of one that was killed.
func (b *bench) wake(ctx context.Context) error {
	res := Result{Scenario: "wake"}
	if b.Hold == nil {
		res.Skipped = "no other process can hold a lock here"
		b.add(res)
		return nil
	}
	name := b.Prefix + "wake"
	p, err := b.Hold(ctx, name)
	if err != nil {
		return err
	}
	defer func() { _ = p.End() }()
	l, r, err := b.open(ctx, locker.EventWaiting)
	if err != nil {
		return err
	}
	defer func() { b.close(l) }()
	bound := b.ttl + b.guarantees.Expiry.Slack
	limited, cancel := context.WithTimeout(ctx, waitLimit+bound+wakeLate+wakeLimit)
	defer cancel()
	granted := make(chan error, 1)
	go func() {
		_, err := l.Acquire(limited, name, b.options()...) // close releases it
		granted <- err
	}()
	select {
	case <-r.waiting:
	case <-time.After(waitLimit):
	case <-ctx.Done():
	}
	end, how := p.Stop, "after its holder has stopped"
	if b.ttl == 0 {
		end, how = p.Kill, "after its holder was killed"
	}
	began := time.Now()
	if err := end(); err != nil {
		cancel()
		return errors.Join(err, <-granted)
	}
	err = <-granted
	took := time.Since(began)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	res.Figures = []Figure{span("granted "+how, took), span("TTL + slack", bound)}
	var verdicts []Verdict
	if took > bound+wakeLate {
		verdicts = append(verdicts, note("a lock was free %v after its holder had stopped, and the guarantees say %v: "+
			"a server, or a proxy in front of it, is late, or has a longer TTL than it says", short(took), short(bound)))
	}
	b.add(res, verdicts...)
	if err != nil {
		return fmt.Errorf("wake: %w", err)
	}
	return nil
}
