package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/cmd/locker/internal/pace"
)

// run shows the holder, asks, and takes the lock away.
func (b *breaking) run(ctx context.Context, l locker.Locker) error {
	defer b.audit.close()
	v, err := findVictim(ctx, l, b.name, b.slot, b.token)
	if err != nil {
		return b.failure(ctx, err)
	}
	if l.Guarantees().Break >= locker.BreakSeenAtRenewal && !b.yes { // otherwise the Locker says what is possible
		agreed, err := b.ask(ctx, v.question(l.Guarantees(), b.breach))
		if err != nil || !agreed {
			return errors.Join(interruption(ctx), err, nothingTaken("nothing was changed"))
		}
	}
	began := time.Now()
	effect, err := v.take(ctx, l, b.breach, b.audit)
	if err != nil {
		return b.failure(ctx, err)
	}
	if b.wait {
		return b.await(ctx, l, v, began, effect)
	}
	return nil
}

// failure is err, or the interruption if that is why a request has failed.
func (b *breaking) failure(ctx context.Context, err error) error {
	var exit *exitError
	if stopped := interruption(ctx); stopped != nil && errors.As(err, &exit) && (exit.code == exitService || exit.code == exitUsage) {
		return stopped
	}
	return err
}

// ask returns the answer to a question.
func (b *breaking) ask(ctx context.Context, question string) (bool, error) {
	if _, err := io.WriteString(b.stderr, question+" [y/N] "); err != nil {
		return false, err
	}
	answers := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(b.in).ReadString('\n') // without a line the answer is no
		answers <- line
	}()
	select {
	case line := <-answers:
		answer := strings.ToLower(strings.TrimSpace(line))
		return answer == "y" || answer == "yes", nil
	case <-ctx.Done():
		return false, nil
	}
}

const (
	passLimit = 10 * time.Second       // how much longer than the service says break waits for the lock to pass on
	passEvery = 200 * time.Millisecond // from one look to the next
)

// await waits until the lease with the token doesn't hold the lock any more. Without a time that the service knows,
// only a signal ends the wait.
func (b *breaking) await(ctx context.Context, l locker.Locker, v victim, began time.Time, effect locker.Effect) error {
	limited, cancel := context.WithCancel(ctx)
	if effect.Within >= 0 {
		limited, cancel = context.WithTimeout(ctx, effect.Within+passLimit)
	}
	defer cancel()
	for {
		asked := time.Now()
		s, err := locker.Inspect(limited, l, v.name, locker.Look{Slot: v.slot})
		if err == nil && (s.Holder == nil || s.Holder.Token != v.token) {
			text := "free after " + short(time.Since(began))
			if s.Holder != nil {
				who := rowOf(l.Guarantees().Backend, s, time.Now()).Holder.who()
				text = fmt.Sprintf("passed on after %s; now held by %s", short(time.Since(began)), who)
				if s.Holder.Token != 0 { // on Postgres it isn't known before the next renewal
					text += fmt.Sprintf(" (token %d)", s.Holder.Token)
				}
			}
			if _, err := fmt.Fprintln(b.out, text); err != nil { // no failure: exitOutput would say that nothing was taken away
				flush(sayAside(b.stderr, text+"; the output could not be written: "+err.Error()))
			}
			return nil
		}
		select {
		case <-time.After(pace.Pause(passEvery, time.Since(asked))):
		case <-limited.Done():
			if stopped := interruption(ctx); stopped != nil {
				return stopped
			}
			return nothingTaken("the lock has not passed on in " + short(time.Since(began)))
		}
	}
}
