package etcdconn

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// call is one request to one member. It counts how often gRPC hands the request to a connection:
// the client repeats a request by itself when its login has expired, among other cases. gRPC asks
// for the credentials of a call each time, so call is one of these.
type call struct {
	handed  atomic.Int32
	learner atomic.Bool // a learner has refused it
}

// errLearnerOnce has the text of a learner's refusal, and a code that the client doesn't repeat.
var errLearnerOnce = status.Error(codes.Unavailable, rpctypes.ErrorDesc(rpctypes.ErrGRPCNotSupportedForLearner))

func (c *call) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	if c.learner.Load() {
		return nil, errLearnerOnce
	}
	c.handed.Add(1)
	return nil, nil
}

// ended takes in the error of what gRPC was handed. The client would hand a request to a learner up to
// 100 times, in the hope that another member gets it.
func (c *call) ended(err error) {
	if errors.Is(err, rpctypes.ErrGRPCNotSupportedForLearner) {
		c.learner.Store(true)
	}
}

func (c *call) RequireTransportSecurity() bool { return false }

type callKey struct{}

// attempt sends the request. A member without a leader refuses it at once, instead of waiting until
// there is a leader.
func (c *call) attempt(
	ctx context.Context, limit time.Duration, m *member,
	request func(context.Context, *member) error,
) error {
	ctx, cancel := context.WithTimeout(c.context(ctx), limit)
	defer cancel()
	began := time.Now()
	err := m.connected(ctx)
	if err == nil {
		m.redial()
		err = rpctypes.Error(request(ctx, m))
	}
	m.noteSilence(began, err != nil && ctx.Err() != nil)
	return err
}

// context returns the context of c's request.
func (c *call) context(ctx context.Context) context.Context {
	return context.WithValue(clientv3.WithRequireLeader(ctx), callKey{}, c)
}

// callOf returns the call that a request belongs to.
func callOf(ctx context.Context) *call { return ctx.Value(callKey{}).(*call) }

func (c *call) sent() bool { return c.handed.Load() > 0 }

// maybeLate reports whether a copy of the request may be executed from now on.
func (c *call) maybeLate(err error) bool {
	return c.handed.Load() > 1 || c.sent() && err != nil && !settled(err)
}

// maybeDone reports whether the request may be executed, or was, although err was returned.
func (c *call) maybeDone(err error) bool { return c.maybeLate(err) || c.sent() && IsNoSpace(err) }

// options are the options of the call in ctx. A connection that has failed is not waited for.
func options(ctx context.Context, opts ...grpc.CallOption) []grpc.CallOption {
	c := callOf(ctx)
	return append(opts, grpc.WaitForReady(false), grpc.PerRPCCredentials(c), grpc.OnFinish(c.ended))
}

// kvClient adds the options of a call, which clientv3.KV has no parameter for.
type kvClient struct{ pb.KVClient }

func (k kvClient) Txn(ctx context.Context, in *pb.TxnRequest, opts ...grpc.CallOption) (*pb.TxnResponse, error) {
	return k.KVClient.Txn(ctx, in, options(ctx, opts...)...)
}
