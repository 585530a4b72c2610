package etcdbackend

import (
	"context"
	"time"
)

// openings is how many streams are opened side by side, at most, to get one.
const openings = 3

// openStream opens a stream, which ends with ctx. Another is begun each time that wait has passed; those that are not the first are
// cancelled.
//
// The client logs in anew for each stream, and not at the stream's own member but at any of the cluster, one after the other.
// That one may be frozen, and then nothing of the stream is sent, though its own member is well. The next login goes elsewhere.
func openStream[S any](ctx context.Context, wait time.Duration, dial func(context.Context) (S, error)) (S, error) {
	type result struct {
		i      int
		stream S
		err    error
	}
	results := make(chan result, openings)
	var cancels []context.CancelFunc // that of the first isn't called: its context ends with ctx
	begin := func() {
		i := len(cancels)
		ctx, cancel := context.WithCancel(ctx)
		cancels = append(cancels, cancel)
		go func() {
			stream, err := dial(ctx)
			results <- result{i, stream, err}
		}()
	}
	next := time.NewTicker(wait)
	defer next.Stop()
	begin()
	for failed := 0; ; {
		select {
		case <-next.C:
			if len(cancels) < openings {
				begin()
			}
		case r := <-results:
			if r.err != nil {
				if failed++; failed < len(cancels) {
					continue
				}
			}
			for i, cancel := range cancels {
				if i != r.i || r.err != nil {
					cancel()
				}
			}
			return r.stream, r.err
		}
	}
}
