package etcdbackend_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// refusing is a member that refuses.
type refusing struct {
	now  atomic.Bool
	with error
	but  func(req any) bool // what it doesn't refuse; nil: it refuses everything
}

func (r *refusing) options() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.UnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
			if r.now.Load() && (r.but == nil || !r.but(req)) {
				return nil, r.with
			}
			return handle(ctx, req)
		}),
		grpc.StreamInterceptor(func(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
			if r.now.Load() {
				return r.with
			}
			return handle(srv, stream)
		}),
	}
}

func isEmpty(req any) bool {
	txn, ok := req.(*pb.TxnRequest)
	return ok && len(txn.Compare)+len(txn.Success)+len(txn.Failure) == 0
}

// A server that isn't a member of the own cluster is left, whatever it answers.
func TestStrangerThatRefuses(t *testing.T) {
	t.Parallel()
	const ttl = 2 * time.Second
	cases := map[string]*refusing{
		"another cluster, by permissions":  {with: rpctypes.ErrGRPCPermissionDenied, but: isEmpty},
		"another cluster with other users": {with: rpctypes.ErrGRPCInvalidAuthToken},
		"another cluster without space":    {with: rpctypes.ErrGRPCNoSpace, but: isEmpty},
		"a login there":                    {with: rpctypes.ErrGRPCAuthFailed},
		"a server of something else":       {with: status.Error(codes.Unimplemented, "unknown service etcdserverpb.KV")},
		"403":                              {with: status.Error(codes.PermissionDenied, "unexpected HTTP status code received from server: 403 (Forbidden)")},
		"401":                              {with: status.Error(codes.Unauthenticated, "unexpected HTTP status code received from server: 401 (Unauthorized)")},
	}
	together(t, slices.Collect(maps.Keys(cases)), func(why string) string { return why }, func(t *testing.T, why string) {
		r := cases[why]
		own, other := cluster{id: 1}, cluster{id: 2}
		var gone away
		d := first(t, clientv3.Config{}, own.member(t, gone.option()), other.member(t, r.options()...))
		held, _ := acquire(t, d, "held", ttl)
		r.now.Store(true)
		gone.now.Store(true)
		ctx, cancel := context.WithTimeout(t.Context(), ttl/4)
		defer cancel()
		if _, err := prepare(t, d, "n", ttl).Acquire(ctx); err == nil {
			t.Error("Acquire while the own cluster is away = nil")
		}
		gone.now.Store(false)
		if err := renew(t, d, held)[0]; err != nil {
			t.Errorf("Renew when the own cluster is back = %v", err)
		}
		if _, err := prepare(t, d, "other", ttl+time.Second).Acquire(t.Context()); err != nil {
			t.Errorf("Acquire when the own cluster is back = %v", err)
		}
	})
}

// What a member of the own cluster refuses, the others refuse as well: none of them is asked.
func TestRefusalEndsTheRequest(t *testing.T) {
	t.Parallel()
	for _, with := range []error{rpctypes.ErrGRPCPermissionDenied, rpctypes.ErrGRPCNoSpace} {
		var s cluster
		var asked atomic.Int32
		s.onTxn = func(_ context.Context, r *pb.TxnRequest) (*pb.TxnResponse, error) {
			if isEmpty(r) {
				return s.txn(r)
			}
			asked.Add(1)
			return nil, with
		}
		d := drive(t, clientv3.Config{Endpoints: []string{s.member(t), s.member(t), s.member(t)}})
		_, err := prepare(t, d, "n", 10*time.Second).Acquire(t.Context())
		if !errors.Is(err, rpctypes.Error(with)) || asked.Load() != 1 {
			t.Errorf("Acquire = %v, after %d requests, want %v, after 1", err, asked.Load(), with)
		}
	}
}

// Some limits are each member's own. The next one may have another.
func TestLimitOfOneMember(t *testing.T) {
	t.Parallel()
	for _, with := range []error{rpctypes.ErrGRPCRequestTooManyRequests, rpctypes.ErrGRPCTooManyOps, rpctypes.ErrGRPCRequestTooLarge} {
		var s cluster
		limited := refusing{with: with, but: isEmpty}
		d := first(t, clientv3.Config{}, s.member(t, limited.options()...), s.member(t))
		limited.now.Store(true)
		if _, err := prepare(t, d, "n", 10*time.Second).Acquire(t.Context()); err != nil {
			t.Errorf("Acquire = %v, and only one member refuses", err)
		}
	}
}
