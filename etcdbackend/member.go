package etcdbackend

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"

	"github.com/fencedlock/locker/driver"
)

// member is one server of the cluster.
type member struct {
	addr    string // as the client has it
	client  *clientv3.Client
	dialing shared

	// From connected on.
	conn        *grpc.ClientConn
	kv          clientv3.KV
	leases      pb.LeaseClient
	watch       pb.WatchClient
	maintenance pb.MaintenanceClient
	cluster     pb.ClusterClient

	mu     sync.Mutex
	free   []*pulse
	nudged time.Time
	closed bool
	unfit  error // why it is asked for nothing any more
}

// host is the address as errors have it.
func (m *member) host() string { return hostOf(m.addr) }

func hostOf(addr string) string {
	if _, host, found := strings.Cut(addr, "://"); found {
		return host
	}
	return addr
}

// refuse has nothing asked of the member any more. It returns the reason, with which all requests
// to it fail from now on.
func (m *member) refuse(why error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.unfit = fmt.Errorf("%w: %s", why, m.host())
	return m.unfit
}

func (m *member) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	for _, p := range m.free {
		p.cancel()
	}
	m.free = nil
	if m.conn != nil {
		_ = m.conn.Close()
	}
}

// nudge makes a connection that has failed try again now, and not when its back-off says, which may be two minutes
// after the member has come back.
func (m *member) nudge() {
	if m.conn.GetState() != connectivity.TransientFailure {
		return
	}
	m.mu.Lock()
	due := time.Since(m.nudged) > time.Second
	if due {
		m.nudged = time.Now()
	}
	m.mu.Unlock()
	if due {
		m.conn.ResetConnectBackoff()
	}
}

// call is one request to one member. It counts how often gRPC hands it to a connection: the client repeats a request in
// silence when its token has expired, among other things.
type call struct{ handed atomic.Int32 }

func (c *call) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	c.handed.Add(1)
	return nil, nil
}

func (c *call) RequireTransportSecurity() bool { return false }

type callKey struct{}

// attempt makes the request. A member without a leader refuses at once: it couldn't do it.
func (c *call) attempt(ctx context.Context, limit time.Duration, m *member, request func(context.Context, *member) error) error {
	ctx, cancel := context.WithTimeout(context.WithValue(clientv3.WithRequireLeader(ctx), callKey{}, c), limit)
	defer cancel()
	if err := m.connected(ctx); err != nil {
		return err
	}
	m.nudge()
	return rpctypes.Error(request(ctx, m))
}

// callOf is the call that a request belongs to.
func callOf(ctx context.Context) *call { return ctx.Value(callKey{}).(*call) }

func (c *call) sent() bool { return c.handed.Load() > 0 }

// maybeDone reports whether a copy of the request may be executed, apart from the one whose answer
// is err.
func (c *call) maybeDone(err error) bool {
	return c.handed.Load() > 1 || c.sent() && err != nil && !undone(err)
}

// options are those of the call in ctx. A connection that has failed is not waited for.
func options(ctx context.Context, opts ...grpc.CallOption) []grpc.CallOption {
	opts = append(opts, grpc.WaitForReady(false))
	if c, ok := ctx.Value(callKey{}).(*call); ok {
		opts = append(opts, grpc.PerRPCCredentials(c))
	}
	return opts
}

// kvClient adds the options of a call, which clientv3.KV can't.
type kvClient struct{ pb.KVClient }

func (k kvClient) Txn(ctx context.Context, in *pb.TxnRequest, opts ...grpc.CallOption) (*pb.TxnResponse, error) {
	return k.KVClient.Txn(ctx, in, options(ctx, opts...)...)
}

// newLeaseID draws the id of an etcd lease: so it is known, and can be revoked, when the answer to its Grant is lost.
func newLeaseID() clientv3.LeaseID {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return clientv3.LeaseID(binary.BigEndian.Uint64(b[:])>>1 | 1)
}

func (m *member) grant(ctx context.Context, id clientv3.LeaseID, seconds int64) (*pb.LeaseGrantResponse, error) {
	return m.leases.LeaseGrant(ctx, &pb.LeaseGrantRequest{ID: int64(id), TTL: seconds}, options(ctx)...)
}

func (m *member) revoke(ctx context.Context, id clientv3.LeaseID) (*pb.LeaseRevokeResponse, error) {
	return m.leases.LeaseRevoke(ctx, &pb.LeaseRevokeRequest{ID: int64(id)}, options(ctx)...)
}

// pulse is a stream of keepalives. It is kept for the next, because the client authenticates anew for each stream, which
// costs the cluster a write and a slow hash.
type pulse struct {
	pb.Lease_LeaseKeepAliveClient
	cancel context.CancelFunc
}

// maxFree bounds the streams that are kept to a member. A Renew uses one for each session at once. An idle one costs a
// goroutine here and some in the member, and sends nothing.
const maxFree = maxSessions

// keepAlive sends one keepalive. A stream that was kept may have ended meanwhile: then a new one is tried.
func (m *member) keepAlive(ctx context.Context, id clientv3.LeaseID) (driver.Instant, *pb.LeaseKeepAliveResponse, error) {
	if p := m.take(); p != nil {
		sent, resp, err := m.exchange(ctx, p, id)
		if err == nil || ctx.Err() != nil {
			return sent, resp, err
		}
	}
	p, err := m.pulse(ctx)
	if err != nil {
		return 0, nil, err
	}
	return m.exchange(ctx, p, id)
}

// pulse opens a stream that outlives ctx.
func (m *member) pulse(ctx context.Context) (*pulse, error) {
	limit := maxAttempt
	if end, ok := ctx.Deadline(); ok {
		limit = max(time.Until(end), time.Millisecond)
	}
	long, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, cancel)
	stream, err := openStream(long, limit/(openings+1), func(ctx context.Context) (pb.Lease_LeaseKeepAliveClient, error) {
		return m.leases.LeaseKeepAlive(ctx, options(ctx)...)
	})
	if err != nil || !stop() {
		cancel()
		if err == nil {
			err = ctx.Err()
		}
		return nil, err
	}
	return &pulse{stream, cancel}, nil
}

// exchange keeps a stream only if it has brought the answer: a later one would be taken for that to the next keepalive.
func (m *member) exchange(ctx context.Context, p *pulse, id clientv3.LeaseID) (driver.Instant, *pb.LeaseKeepAliveResponse, error) {
	stop := context.AfterFunc(ctx, p.cancel)
	if c, ok := ctx.Value(callKey{}).(*call); ok {
		c.handed.Add(1)
	}
	sent := driver.Stamp()
	_ = p.Send(&pb.LeaseKeepAliveRequest{ID: int64(id)}) // Recv has the reason why it failed, if it did
	resp, err := p.Recv()
	if err != nil {
		p.cancel()
		stop()
		return 0, nil, err
	}
	if stop() {
		m.keep(p)
	}
	return sent, resp, nil
}

func (m *member) take() *pulse {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.free) == 0 {
		return nil
	}
	p := m.free[len(m.free)-1]
	m.free = m.free[:len(m.free)-1]
	return p
}

func (m *member) keep(p *pulse) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed || len(m.free) == maxFree {
		p.cancel()
		return
	}
	m.free = append(m.free, p)
}
