package etcdbackend

import (
	"context"
	"sync/atomic"

	"google.golang.org/grpc"
)

// firstLogin is that of a client with a user. clientv3.New waits with it for a connection until its
// time is over, and then says nothing but that, also where no member can be reached. So this one
// doesn't wait for a connection that has failed.
type firstLogin struct{ over atomic.Bool }

func (l *firstLogin) intercept(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	if method == "/etcdserverpb.Auth/Authenticate" && !l.over.Load() {
		opts = append(opts, grpc.WaitForReady(false))
	}
	return invoke(ctx, method, req, reply, conn, opts...)
}
