package main

import (
	"context"
	"errors"
	"time"
)

// givenUp is the error of what has not ended in time. It is the time.
type givenUp time.Duration

func (g givenUp) Error() string { return "given up after " + short(time.Duration(g)) }

// why says why a peer was left out.
func why(cause error) string {
	var late givenUp
	if errors.As(cause, &late) {
		return late.Error()
	}
	return "failed"
}

// graceTime is how long a peer may take to notice that its context has ended.
const graceTime = 500 * time.Millisecond

// within calls do with a context that ends after limit. Not every library looks at its context: if
// do goes on, it is left behind, and within returns. The error is givenUp then.
func within[T any](ctx context.Context, limit time.Duration, do func(context.Context) (T, error)) (T, error) {
	limited, cancel := context.WithTimeoutCause(ctx, limit, givenUp(limit))
	defer cancel()
	type outcome struct {
		value T
		err   error
	}
	done := make(chan outcome, 1)
	go func() {
		value, err := do(limited)
		done <- outcome{value, err}
	}()
	var o outcome
	select {
	case o = <-done:
	case <-limited.Done():
		select {
		case o = <-done:
		case <-time.After(graceTime):
			o.err = limited.Err()
		}
	}
	if o.err != nil && limited.Err() != nil {
		o.err = context.Cause(limited)
	}
	return o.value, o.err
}
