package etcdconn

import (
	"context"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
)

const idleLimit = time.Minute

// NewClient makes a client. clientv3.New waits for the first login of a client with a user until
// the DialTimeout has passed, and then says nothing but that, also where no member can be reached.
// So this login doesn't wait for a connection that has failed.
//
// A connection that had neither requests nor streams for idleLimit is closed, and made again for the next
// request. It may have died without a sign, and when the member in use fails, the next one must answer.
func NewClient(config clientv3.Config) (*clientv3.Client, error) {
	var over atomic.Bool
	firstLogin := func(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		if method == "/etcdserverpb.Auth/Authenticate" && !over.Load() {
			opts = append(opts, grpc.WaitForReady(false))
		}
		return invoke(ctx, method, req, reply, conn, opts...)
	}
	config.DialOptions = append(config.DialOptions, grpc.WithChainUnaryInterceptor(firstLogin), grpc.WithIdleTimeout(idleLimit))
	defer over.Store(true)
	return clientv3.New(config)
}

// logIn makes the client log in again, if it has a user. By itself it does so only when it opens a
// stream, or when a member says that it doesn't know the login.
//
// When a login refers to a state that a member has not reached yet, the member says nothing: it
// waits for that state. So a cluster that was founded again, or restored, leaves each request
// unanswered for as long as the old cluster had been at work. A login is worth an attempt when most
// members don't answer.
func (c *Cluster) logIn(ctx context.Context, limit time.Duration) {
	if c.client.Username == "" {
		return
	}
	_, _ = c.logins.Do(ctx, c.tasks, func(ctx context.Context) (struct{}, error) {
		m, err := c.firstMember()
		if err != nil {
			return struct{}{}, err
		}
		return struct{}{}, new(call).attempt(ctx, limit, m, func(ctx context.Context, m *member) error {
			s, err := m.openKeepalives(ctx)
			if err == nil {
				m.keepStream(s) // for the next keepalive
			}
			return err
		})
	})
}
