// Package pace looks at a service again and again, and no faster than the service can take.
package pace

import (
	"context"
	"time"
)

// share is how many times as long as a look the pause after it is.
const share = 10

// Pause is the time from the end of a look that took took to the beginning of the next one: every,
// or ten times took if that is longer. So a service that needs long for an answer, such as a Redis
// with many other keys, is busy with it for at most a tenth of the time.
func Pause(every, took time.Duration) time.Duration { return max(every, share*took) }

// Repeat calls look at once, and again after each Pause, until ctx ends. It returns when the last
// call has returned.
func Repeat(ctx context.Context, every time.Duration, look func(ctx context.Context)) {
	for ctx.Err() == nil {
		began := time.Now()
		look(ctx)
		select {
		case <-ctx.Done():
		case <-time.After(Pause(every, time.Since(began))):
		}
	}
}
