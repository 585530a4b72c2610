package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
)

// untilInterrupted returns a context that ends with the first signal of those that end a wait; a
// second one ends this program. stop is called when it has nothing to clean up any more.
func untilInterrupted() (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	catch(signals, endingSignals)
	go func() {
		select {
		case sig := <-signals:
			signal.Stop(signals)
			cancel(&exitError{code: exitSignal + signalNumber(sig), err: errors.New("interrupted")})
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		cancel(nil)
	}
}

// interruption is the error of the signal that has ended the context of untilInterrupted, if there
// was one.
func interruption(ctx context.Context) error {
	var exit *exitError
	if errors.As(context.Cause(ctx), &exit) {
		return exit
	}
	return nil
}
