package main

import (
	"context"

	"github.com/fencedlock/locker"
)

// thisProject is the name under which this project is measured.
const thisProject = "locker"

// lockerLibrary is this project on one backend. open returns a Locker and what must be closed after
// it.
func lockerLibrary(setUp string, open func(ctx context.Context, s site) (locker.Locker, func(), error)) library {
	return library{
		name:   thisProject,
		setUp:  setUp,
		looks:  "Err",
		tokens: true,
		open: func(ctx context.Context, s site) (*client, error) {
			l, closeRest, err := open(ctx, s)
			if err != nil {
				return nil, err
			}
			return &client{
				lock: func(ctx context.Context, name string) (*holding, error) {
					lease, err := l.Acquire(ctx, name, locker.WithTTL(s.ttl))
					if err != nil {
						return nil, err
					}
					return &holding{
						token:    int64(lease.Token()),
						release:  lease.Release,
						held:     func() bool { return lease.Err() == nil },
						cause:    lease.Err,
						deadline: lease.Deadline,
					}, nil
				},
				close: func() {
					_ = l.Close()
					closeRest()
				},
				slack: l.Guarantees().Expiry.Slack,
			}, nil
		},
	}
}
