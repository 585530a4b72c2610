package redisbackend

import (
	"context"
	"time"
)

// patiently makes a renewal, and returns when it has its answers or ctx ends. With a short TTL ctx
// ends soon, so that another try has time. But the answers that are late count as well, and to give
// up a message costs its connection: a server that is slow to answer may be slower still to accept a
// new one. So the renewal goes on after that, for as long as other messages may take, while the next
// one is sent on another connection. One of the two finds its way, whether the server is slow or the
// network has dropped the connection.
//
// Half of the connections are left to others.
func (d *redisDriver) patiently(ctx context.Context, ttl time.Duration, renew func(ctx context.Context)) {
	limit := min(ttl, messageTimeout)
	until, limited := ctx.Deadline()
	if !limited || time.Until(until) >= limit {
		renew(ctx)
		return
	}
	select {
	case d.patient <- struct{}{}:
	default:
		renew(ctx)
		return
	}
	began, answered := time.Now(), make(chan struct{})
	go func() {
		defer close(answered)
		defer func() { <-d.patient }()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
		defer cancel()
		renew(ctx)
	}()
	select {
	case <-answered:
	case <-ctx.Done():
		d.router.conn.DropIdle(began)
	}
}
