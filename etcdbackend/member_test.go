package etcdbackend_test

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/fencedlock/locker/etcdbackend"
)

// silentKV takes requests and says what it is told to.
type silentKV struct {
	pb.UnimplementedKVServer
	reply func(context.Context) (*pb.TxnResponse, error)
}

func (s *silentKV) Txn(ctx context.Context, _ *pb.TxnRequest) (*pb.TxnResponse, error) {
	return s.reply(ctx)
}

func listen(t *testing.T) net.Listener {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func serve(t *testing.T, reply func(context.Context) (*pb.TxnResponse, error)) net.Listener {
	l, server := listen(t), grpc.NewServer()
	pb.RegisterKVServer(server, &silentKV{reply: reply})
	go func() { _ = server.Serve(l) }()
	t.Cleanup(server.Stop)
	return l
}

// What is said of a request that failed rests on how gRPC hands requests to connections: one that was never sent leaves
// nothing to clean up, and of one that was sent nobody knows.
func TestWhatWasSent(t *testing.T) {
	closed := listen(t)
	_ = closed.Close()
	for _, c := range []struct {
		why  string
		at   net.Listener
		sent bool
	}{
		{"nobody listens", closed, false},
		{"nobody speaks", listen(t), false}, // the kernel accepts
		{"no answer", serve(t, func(ctx context.Context) (*pb.TxnResponse, error) { <-ctx.Done(); return nil, ctx.Err() }), true},
		{"an answer", serve(t, func(context.Context) (*pb.TxnResponse, error) { return &pb.TxnResponse{}, nil }), true},
	} {
		client, err := clientv3.New(clientv3.Config{Endpoints: []string{c.at.Addr().String()}, Logger: zap.NewNop()})
		if err != nil {
			t.Fatal(err)
		}
		sent, late, err := etcdbackend.Attempt(t.Context(), client, c.at.Addr().String(), 300*time.Millisecond)
		if sent != c.sent || late != (c.sent && err != nil) {
			t.Errorf("%s: sent %v, late %v, with the error %v; want sent %v", c.why, sent, late, err, c.sent)
		}
		_ = client.Close()
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
	l, server := listen(t), grpc.NewServer()
	pb.RegisterAuthServer(server, p)
	pb.RegisterLeaseServer(server, p)
	go func() { _ = server.Serve(l) }()
	t.Cleanup(server.Stop)
	return l.Addr().String()
}

// The client logs in for each stream at any member: one that is frozen costs a moment there, and not a keepalive of another.
func TestLoginAtAFrozenMember(t *testing.T) {
	var well, ill pulsing
	at, elsewhere := well.start(t), ill.start(t)
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{at, elsewhere}, Username: "u", Password: "p", Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ill.frozen.Store(true)
	before := ill.logins.Load()
	for range 6 {
		if err := etcdbackend.KeepAlive(t.Context(), client, at, 2*time.Second); err != nil {
			t.Errorf("a keepalive at the member that is well: %v", err)
		}
	}
	if ill.logins.Load() == before {
		t.Errorf("nobody came to log in at the other member, so this proves nothing")
	}
}

// granting answers Grants, or not, in a cluster that nobody leads.
type granting struct {
	pb.UnimplementedLeaseServer
	mute  bool
	asked atomic.Int32
}

func (g *granting) LeaseGrant(ctx context.Context, _ *pb.LeaseGrantRequest) (*pb.LeaseGrantResponse, error) {
	g.asked.Add(1)
	if g.mute {
		<-ctx.Done()
	}
	return nil, rpctypes.ErrGRPCNoLeader
}

// While nobody leads, members refuse at once. What they have refused is not revoked, and they are not asked without pause.
func TestNoLeader(t *testing.T) {
	for _, mute := range []bool{false, true} {
		l, server, g := listen(t), grpc.NewServer(), &granting{mute: mute}
		pb.RegisterLeaseServer(server, g)
		go func() { _ = server.Serve(l) }()
		t.Cleanup(server.Stop)
		client, err := clientv3.New(clientv3.Config{Endpoints: []string{l.Addr().String()}, Logger: zap.NewNop()})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		strays, err := etcdbackend.Grant(ctx, client)
		cancel()
		if err == nil {
			t.Errorf("mute %v: Grant = nil, want an error", mute)
		}
		if mute != (strays > 0) {
			t.Errorf("mute %v: %d etcd leases may have been granted", mute, strays)
		}
		if n := g.asked.Load(); n == 0 || n > 8 {
			t.Errorf("mute %v: it was asked %d times in 1.5 s, want some", mute, n)
		}
		_ = client.Close()
	}
}

// Whichever members are down, the first request of all comes to one that isn't.
func TestEachMemberIsAsked(t *testing.T) {
	closed := listen(t)
	_ = closed.Close()
	down, mute := closed.Addr().String(), listen(t).Addr().String()
	up := serve(t, func(context.Context) (*pb.TxnResponse, error) {
		return &pb.TxnResponse{Header: &pb.ResponseHeader{ClusterId: 1}}, nil
	}).Addr().String()
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
		client, err := clientv3.New(clientv3.Config{Endpoints: c.endpoints, Logger: zap.NewNop()})
		if err != nil {
			t.Fatal(err)
		}
		if err := etcdbackend.Txn(t.Context(), client, 300*time.Millisecond); (err == nil) != c.answered {
			t.Errorf("of %q: %v, want an answer: %v", c.endpoints, err, c.answered)
		}
		_ = client.Close()
	}
}
