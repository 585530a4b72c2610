package main

import (
	"context"
	"net"
	"time"
)

// library is a way to lock.
type library struct {
	name string

	// setUp says in a few words how it is used here, where its documentation leaves a choice.
	setUp string

	// looks is how a holder can learn that it has lost the lock, without asking the service. If it
	// is empty, the library has nothing for that, and a holder believes until it releases.
	looks string

	// tokens: each lease has a fencing token, so there are rounds with the fence.
	tokens bool

	// neverExpires: a holder that is silent, but whose machine is not, keeps the lock. The pause
	// proves nothing about such a library: nobody else gets the lock.
	neverExpires bool

	// noRenewal: the lock ends with its TTL, so a holder that should keep it loses it for certain.
	noRenewal bool

	// planted is its mistake, which the campaign must find; nil: it is a real library. Planted locks
	// run only if they are asked for.
	planted *mistake

	open func(ctx context.Context, s site) (*client, error)
}

// site is where the servers are, and how a contender reaches them.
type site struct {
	addrs []string // HOST:PORT of each server
	dial  dialFunc
	ttl   time.Duration
}

type dialFunc = func(ctx context.Context, network, addr string) (net.Conn, error)

// client is what one contender has of a library.
type client struct {
	// lock waits for the lock of that name until ctx ends. A library that ignores contexts may stay
	// longer.
	lock  func(ctx context.Context, name string) (*holding, error)
	close func()

	// slack is how much later than the TTL the library says that the lock may be granted to others.
	slack time.Duration
}

// holding is a lock that was granted.
type holding struct {
	token   int64 // 0: none
	release func(ctx context.Context) error

	// held reports whether the holder has the lock, as far as it knows without asking the service.
	// It is nil if the library has nothing for that.
	held func() bool

	// cause is why the lock was lost; nil: the library doesn't say.
	cause func() error

	// deadline is when held becomes false by itself; nil: there is no such time.
	deadline func() time.Time
}

// until is a holding that ends at a time that was fixed when it was granted.
func until(deadline time.Time, release func(ctx context.Context) error) *holding {
	return &holding{
		release:  release,
		held:     func() bool { return time.Now().Before(deadline) },
		deadline: func() time.Time { return deadline },
	}
}

// whileOpen is a holding that ends when a channel is closed.
func whileOpen(done <-chan struct{}, release func(ctx context.Context) error) *holding {
	return &holding{release: release, held: func() bool {
		select {
		case <-done:
			return false
		default:
			return true
		}
	}}
}
