package etcdconn

import (
	"context"
	"time"
)

// maxOpenings is how many streams are opened in parallel, at most, to get one.
const maxOpenings = 3

// openStream opens a stream, which ends with ctx, within limit. It begins another one when the
// latest is not open after a part of limit. All but the first that opens are cancelled.
//
// The client logs in for each stream, at any member of the cluster, in turn. That member may be
// frozen, and then nothing of the stream is sent, although the stream's own member is well. The
// next login goes to the next member.
func openStream[S any](ctx context.Context, limit time.Duration, open func(context.Context) (S, error)) (S, error) {
	type result struct {
		i      int
		stream S
		err    error
	}
	results := make(chan result, maxOpenings)
	var cancels []context.CancelFunc // the winner's is not called: its context ends with ctx
	begin := func() {
		i := len(cancels)
		ctx, cancel := context.WithCancel(ctx)
		cancels = append(cancels, cancel)
		go func() {
			stream, err := open(ctx)
			results <- result{i, stream, err}
		}()
	}
	next := time.NewTicker(limit / (maxOpenings + 1))
	defer next.Stop()
	begin()
	for failed := 0; ; {
		select {
		case <-next.C:
			if len(cancels) < maxOpenings {
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
