package etcdbackend_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/etcdbackend"
)

// A client without endpoints can't be used, and a Locker says so.
func TestNoEndpoints(t *testing.T) {
	_, err := etcdbackend.New(t.Context(), clientv3.NewCtxClient(t.Context()))
	if !errors.Is(err, locker.ErrOption) || !strings.Contains(err.Error(), "no endpoints") {
		t.Errorf("New = %v, want ErrOption that speaks of endpoints", err)
	}
}

// Lockers of one URL begin with different members.
func TestMembersShareTheLoad(t *testing.T) {
	var s cluster
	const members, lockers = 3, 60
	var asked [members]atomic.Int32
	var addrs []string
	for i := range members {
		addrs = append(addrs, s.member(t, grpc.UnaryInterceptor(
			func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
				asked[i].Add(1)
				return handle(ctx, req)
			})))
	}
	for range lockers {
		d := drive(t, clientv3.Config{Endpoints: addrs})
		if _, err := d.(driver.TokenReader).CurrentToken(t.Context(), "n", 0); err != nil {
			t.Fatal(err)
		}
	}
	for i := range asked {
		if n := asked[i].Load(); n < lockers/members/4 { // by chance in one of 10⁶ runs
			t.Errorf("member %d was asked by %d of %d Lockers", i, n, lockers)
		}
	}
}

// A minority of the members takes connections and answers nothing. That costs an acquisition time,
// and no more, whichever members it asks first.
func TestSilentMinority(t *testing.T) {
	t.Parallel()
	together(t, []int{3, 5, 7}, strconv.Itoa, func(t *testing.T, members int) {
		orAgain(t, func() error { return acquireFromMajority(t, members) })
	})
}

func acquireFromMajority(t *testing.T, members int) error {
	var s cluster
	var silent atomic.Bool
	var addrs []string
	for i := range members {
		addrs = append(addrs, s.member(t, grpc.UnaryInterceptor(
			func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
				if i < (members-1)/2 && silent.Load() {
					<-ctx.Done()
					return nil, ctx.Err()
				}
				return handle(ctx, req)
			})))
	}
	errs := make([]error, 8)
	var locks []driver.Lock
	for range errs { // each with an order of its own, of which the first member is silent
		locks = append(locks, prepare(t, first(t, clientv3.Config{}, addrs...), "n", 30*time.Second))
	}
	silent.Store(true)
	var all sync.WaitGroup
	for i, l := range locks {
		all.Go(func() {
			if _, err := l.Acquire(t.Context()); err != nil && !errors.Is(err, driver.ErrQueued) {
				errs[i] = fmt.Errorf("Acquire = %w, and a majority is well", err)
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// The time limit of one member lets each minority be silent.
func TestAttemptLimit(t *testing.T) {
	const patience = 5 * time.Second
	for _, ttl := range []time.Duration{2 * time.Second, 15 * time.Second, 30 * time.Second, 300 * time.Second} {
		for n := 1; n <= 11; n++ {
			limit := etcdbackend.AttemptLimit(ttl, n)
			if minority := time.Duration((n - 1) / 2); (minority+1)*limit > patience || limit > ttl/6 || limit < 50*time.Millisecond {
				t.Errorf("TTL %v, %d members: %v for each, of %v", ttl, n, limit, patience)
			}
		}
	}
}

// An error names the members that didn't answer.
func TestSilentMembersAreNamed(t *testing.T) {
	t.Parallel()
	a, b := listen(t).Addr().String(), listen(t).Addr().String()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	_, err := locker.Open(ctx, "etcd://"+a+","+b)
	if err == nil || !strings.Contains(err.Error(), a) && !strings.Contains(err.Error(), b) {
		t.Errorf("Open = %v, want an error that names %s or %s", err, a, b)
	}
	if err != nil && strings.Contains(err.Error(), "\n") {
		t.Errorf("Open = %q, want one line", err)
	}
}

// With a user the client logs in first. Where no server listens, the error says so at once.
func TestClosedPortWithAUser(t *testing.T) {
	closed := listen(t)
	_ = closed.Close()
	began := time.Now()
	_, err := locker.Open(t.Context(), "etcd://joe:sesame@"+closed.Addr().String())
	if err == nil || !strings.Contains(err.Error(), "connection refused") || strings.Contains(err.Error(), "sesame") {
		t.Errorf("Open = %v, want it to say that the connection was refused", err)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("Open took %v", took)
	}
}

// logins is a member that doesn't answer until a login is new enough.
type logins struct {
	pb.UnimplementedAuthServer
	made, needed atomic.Int32
}

func (l *logins) Authenticate(context.Context, *pb.AuthenticateRequest) (*pb.AuthenticateResponse, error) {
	return &pb.AuthenticateResponse{Header: &pb.ResponseHeader{ClusterId: 1}, Token: fmt.Sprint(l.made.Add(1))}, nil
}

func (l *logins) option() grpc.ServerOption {
	return grpc.UnaryInterceptor(func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
		md, _ := metadata.FromIncomingContext(ctx)
		var n int32
		if token := md[rpctypes.TokenFieldNameGRPC]; len(token) > 0 {
			_, _ = fmt.Sscan(token[0], &n)
		}
		if n < l.needed.Load() && !strings.HasSuffix(info.FullMethod, "/Authenticate") {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		return handle(ctx, req)
	})
}

// A cluster was founded again while a Locker with a user was idle. Its login is from before that,
// and no member says so.
func TestLoginOfAnEarlierCluster(t *testing.T) {
	t.Parallel()
	together(t, []int{1, 2, 3, 5}, strconv.Itoa, func(t *testing.T, members int) {
		orAgain(t, func() error { return acquireWithOldLogin(t, members) })
	})
}

func acquireWithOldLogin(t *testing.T, members int) error {
	auth := &logins{}
	s := cluster{auth: auth}
	var addrs []string
	for range members {
		addrs = append(addrs, s.member(t, auth.option()))
	}
	d := drive(t, clientv3.Config{Endpoints: addrs, Username: "joe", Password: "sesame"})
	if _, err := d.(driver.TokenReader).CurrentToken(t.Context(), "n", 0); err != nil {
		t.Fatal(err)
	}
	before := auth.made.Load()
	auth.needed.Store(before + 1)
	if _, err := prepare(t, d, "n", 30*time.Second).Acquire(t.Context()); err != nil {
		return fmt.Errorf("Acquire = %w", err)
	}
	if n := auth.made.Load() - before; n > 2 {
		return fmt.Errorf("it has logged in %d times, want once for that, and once for a stream at most", n)
	}
	return nil
}

// A login that is out of date because users were changed is worth another try.
func TestLoginOutOfDate(t *testing.T) {
	t.Parallel()
	const tries = 3 // of clientv3
	var s cluster
	d := drive(t, clientv3.Config{Endpoints: []string{s.member(t)}, MaxUnaryRetries: tries})
	var refused atomic.Int32
	s.onTxn = func(_ context.Context, r *pb.TxnRequest) (*pb.TxnResponse, error) {
		if refused.Add(1) <= tries {
			return nil, rpctypes.ErrGRPCAuthOldRevision
		}
		return s.txn(r)
	}
	if _, err := prepare(t, d, "n", 30*time.Second).Acquire(t.Context()); err != nil {
		t.Errorf("Acquire = %v", err)
	}
}
