package etcdconn

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"
)

// What is said of a request that failed rests on how gRPC hands requests to connections: one that
// was never sent leaves nothing to clean up, and of one that was sent it is unknown whether it is
// executed.
func TestWhatWasSent(t *testing.T) {
	t.Parallel()
	closed := listenAlone(t)
	_ = closed.Close()
	silent := serve(t, func(ctx context.Context) (*pb.TxnResponse, error) { <-ctx.Done(); return nil, ctx.Err() })
	well := serve(t, func(context.Context) (*pb.TxnResponse, error) { return &pb.TxnResponse{}, nil })
	for _, c := range []struct {
		why   string
		at    string
		limit time.Duration
		sent  bool
	}{
		{"nobody listens", closed.Addr().String(), 5 * time.Second, false},
		{"nobody speaks", listen(t).Addr().String(), 300 * time.Millisecond, false}, // the kernel accepts
		{"no answer", silent, 2 * time.Second, true},
		{"an answer", well, 5 * time.Second, true},
	} {
		m := newMember(newCluster(t, clientv3.Config{Endpoints: []string{c.at}}), c.at)
		var r call
		err := r.attempt(t.Context(), c.limit, m, func(ctx context.Context, m *member) error {
			_, err := m.kv.Txn(ctx).Commit()
			return err
		})
		if sent, late := r.sent(), r.maybeLate(err); sent != c.sent || late != (c.sent && err != nil) {
			t.Errorf("%s: sent %v, late %v, with the error %v; want sent %v", c.why, sent, late, err, c.sent)
		}
		m.close()
	}
}

// pulsing is a member that logs users in, as long as it isn't frozen, and answers keepalives.
type pulsing struct {
	pb.UnimplementedAuthServer
	pb.UnimplementedLeaseServer
	frozen atomic.Bool
	logins atomic.Int32
}

func (p *pulsing) Authenticate(ctx context.Context, _ *pb.AuthenticateRequest) (*pb.AuthenticateResponse, error) {
	if p.logins.Add(1); p.frozen.Load() {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return &pb.AuthenticateResponse{Token: "token"}, nil
}

func (p *pulsing) LeaseKeepAlive(stream pb.Lease_LeaseKeepAliveServer) error {
	for {
		r, err := stream.Recv()
		if err != nil {
			return err
		}
		if err := stream.Send(&pb.LeaseKeepAliveResponse{Header: &pb.ResponseHeader{}, ID: r.ID, TTL: 1}); err != nil {
			return err
		}
	}
}

func (p *pulsing) start(t *testing.T) (addr string) {
	l := listen(t)
	serveAt(t, l, func(s *grpc.Server) {
		pb.RegisterAuthServer(s, p)
		pb.RegisterLeaseServer(s, p)
	})
	return l.Addr().String()
}

// The client logs in for each stream, at any member: a member that is frozen costs a moment, and no
// keepalive of another member.
func TestLoginAtAFrozenMember(t *testing.T) {
	t.Parallel()
	var well, ill pulsing
	at, elsewhere := well.start(t), ill.start(t)
	c := newCluster(t, clientv3.Config{Endpoints: []string{at, elsewhere}, Username: "u", Password: "p"})
	ill.frozen.Store(true)
	before := ill.logins.Load()
	for range 6 {
		m := newMember(c, at) // without streams that are open
		if err := keepAlive(t.Context(), m, 1, 2*time.Second); err != nil {
			t.Errorf("a keepalive at the member that is well: %v", err)
		}
		m.close()
	}
	if ill.logins.Load() == before {
		t.Errorf("no login came to the other member, so this proves nothing")
	}
}

// granting answers Grants, or not, in a cluster without a leader.
type granting struct {
	pb.UnimplementedLeaseServer
	mute   bool
	asked  atomic.Int32
	enough context.CancelFunc // called in the pause after the fourth time, or during the first silence
}

func (g *granting) LeaseGrant(ctx context.Context, _ *pb.LeaseGrantRequest) (*pb.LeaseGrantResponse, error) {
	n := g.asked.Add(1)
	if g.mute || n == 4 {
		time.AfterFunc(longestPause/4, g.enough)
	}
	if g.mute {
		<-ctx.Done()
	}
	return nil, rpctypes.ErrGRPCNoLeader
}

// While there is no leader, members refuse at once. What they have refused is not revoked, and they
// are not asked without a pause.
func TestNoLeader(t *testing.T) {
	for _, mute := range []bool{false, true} {
		t.Run(fmt.Sprintf("mute %v", mute), func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			g := &granting{mute: mute, enough: cancel}
			c := newCluster(t, clientv3.Config{Endpoints: []string{serveLeases(t, g)}})
			orphans := 0
			_, err := c.Grant(ctx, 20*time.Second, 10*time.Second, func(clientv3.LeaseID) { orphans++ })
			if err == nil {
				t.Error("Grant = nil, want an error")
			}
			if mute != (orphans > 0) {
				t.Errorf("%d etcd leases may have been granted", orphans)
			}
			if n := g.asked.Load(); n == 0 || n > 8 {
				t.Errorf("it was asked %d times, want some", n)
			}
		})
	}
}

// Whichever members are down, the first request of all comes to one that isn't.
func TestEachMemberIsAsked(t *testing.T) {
	closed := listenAlone(t)
	_ = closed.Close()
	down, mute := closed.Addr().String(), listen(t).Addr().String()
	up := serve(t, func(context.Context) (*pb.TxnResponse, error) {
		return &pb.TxnResponse{Header: &pb.ResponseHeader{ClusterId: 1}}, nil
	})
	for _, c := range []struct {
		endpoints []string
		answered  bool
	}{
		{[]string{up, down, mute}, true},
		{[]string{down, up}, true},
		{[]string{down, mute, up}, true},
		{[]string{"no-such-host.invalid:1", down, up}, true},
		{[]string{down}, false},
	} {
		cluster := newCluster(t, clientv3.Config{Endpoints: c.endpoints})
		if _, err := cluster.Txn(t.Context(), 300*time.Millisecond, nil, nil, nil); (err == nil) != c.answered {
			t.Errorf("of %q: %v, want an answer: %v", c.endpoints, err, c.answered)
		}
	}
}

// Where all refuse, and none can be recognised as a member, one round is enough.
func TestEverybodyRefuses(t *testing.T) {
	t.Parallel()
	for _, with := range []error{
		rpctypes.ErrGRPCPermissionDenied, rpctypes.ErrGRPCAuthFailed,
		status.Error(codes.Unimplemented, "unknown service etcdserverpb.KV"),
	} {
		var asked [3]atomic.Int32
		var addrs []string
		for i := range asked {
			addrs = append(addrs, serve(t, func(context.Context) (*pb.TxnResponse, error) {
				asked[i].Add(1)
				return nil, with
			}))
		}
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		_, err := newCluster(t, clientv3.Config{Endpoints: addrs}).Txn(ctx, 5*time.Second, nil, nil, nil)
		if ctx.Err() != nil || err == nil || Code(err) != status.Code(with) {
			t.Errorf("= %v, want %v before the time is over", err, with)
		}
		cancel()
		for i := range asked {
			if n := asked[i].Load(); n < 1 || n > 2 { // the request, and the one by which it would be recognised
				t.Errorf("%v: member %d was asked %d times, want 1 or 2", with, i, n)
			}
		}
	}
}

// A member has come back, and gRPC would dial it again in a minute. The first request finds out.
func TestFirstRequestAfterAnOutage(t *testing.T) {
	l := listenAlone(t)
	answer := func(s *grpc.Server) {
		pb.RegisterKVServer(s, &silentKV{reply: func(context.Context) (*pb.TxnResponse, error) {
			return &pb.TxnResponse{Header: &pb.ResponseHeader{ClusterId: 1}}, nil
		}})
	}
	server := serveAt(t, l, answer)
	cluster := newCluster(t, clientv3.Config{
		Endpoints: []string{l.Addr().String()},
		DialOptions: []grpc.DialOption{grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{BaseDelay: time.Minute, Multiplier: 1, MaxDelay: time.Minute},
		})},
	})
	if _, err := cluster.Txn(t.Context(), MaxAttempt, nil, nil, nil); err != nil {
		t.Fatalf("Txn = %v", err)
	}
	server.Stop()
	conn := cluster.allMembers()[0].conn
	for state := conn.GetState(); state != connectivity.TransientFailure; state = conn.GetState() {
		conn.WaitForStateChange(t.Context(), state)
	}
	back, err := net.Listen("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	serveAt(t, back, answer)
	if _, err := cluster.Txn(t.Context(), MaxAttempt, nil, nil, nil); err != nil {
		t.Errorf("Txn when the member is back = %v", err)
	}
}

// A learner is asked once: the client would ask it again and again until the attempt is over, and
// each copy of the request would count as one that may be late.
func TestLearnerIsAskedOnce(t *testing.T) {
	var asked atomic.Int32
	learner := serve(t, func(context.Context) (*pb.TxnResponse, error) {
		asked.Add(1)
		return nil, rpctypes.ErrGRPCNotSupportedForLearner
	})
	c := newCluster(t, clientv3.Config{Endpoints: []string{learner, listen(t).Addr().String()}})
	m := newMember(c, learner)
	t.Cleanup(m.close)
	var r call
	err := r.attempt(t.Context(), 10*time.Second, m, func(ctx context.Context, m *member) error {
		_, err := m.kv.Txn(ctx).Commit()
		return err
	})
	if n := asked.Load(); n != 1 || !errors.Is(err, errLearner) || r.maybeLate(err) {
		t.Errorf("it was asked %d times, late %v, with the error %v; want once, not late, a learner's error", n, r.maybeLate(err), err)
	}
}

// A client whose dials wait for their members has one that can't be reached. The others are asked
// then, and that one again when they don't answer.
func TestDialsThatWait(t *testing.T) {
	for _, c := range []struct {
		why  string
		mute bool
	}{
		{"nobody listens", false},
		{"nobody speaks", true},
	} {
		t.Run(c.why, func(t *testing.T) {
			t.Parallel()
			away, up := listenAlone(t), listen(t)
			if !c.mute {
				_ = away.Close()
			}
			answer := func(s *grpc.Server) {
				pb.RegisterKVServer(s, &silentKV{reply: func(context.Context) (*pb.TxnResponse, error) {
					return &pb.TxnResponse{Header: &pb.ResponseHeader{ClusterId: 1}}, nil
				}})
			}
			server := serveAt(t, up, answer)
			cluster := newCluster(t, clientv3.Config{
				Endpoints:   []string{away.Addr().String(), up.Addr().String()},
				DialTimeout: 4 * time.Second,
				DialOptions: []grpc.DialOption{grpc.WithBlock()}, //nolint:staticcheck // users have it
			})
			for range 2 {
				if _, err := cluster.Txn(t.Context(), MaxAttempt, nil, nil, nil); err != nil {
					t.Fatalf("Txn while one member is away = %v", err)
				}
			}
			_ = away.Close()
			back, err := net.Listen("tcp", away.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			serveAt(t, back, answer)
			server.Stop()
			if _, err := cluster.Txn(t.Context(), MaxAttempt, nil, nil, nil); err != nil {
				t.Errorf("Txn when it is back, and the other one away = %v", err)
			}
		})
	}
}
