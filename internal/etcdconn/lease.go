package etcdconn

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fencedlock/locker/driver"
)

// Keepalive is a keepalive of an etcd lease, or a Grant, that was answered.
type Keepalive struct {
	Sent  driver.Instant // before it was sent
	Term  uint64         // in the header of the answer
	Heard Seq            // after the answer had come
}

// Lease is an etcd lease as it was granted.
type Lease struct {
	ID  clientv3.LeaseID
	TTL time.Duration
	Keepalive
}

// KeepAlive sends one keepalive of an etcd lease, and returns the TTL in the answer; 0: the cluster
// doesn't have the lease. An answer with a term below minTerm counts for nothing.
func (c *Cluster) KeepAlive(
	ctx context.Context, limit time.Duration, id clientv3.LeaseID, minTerm uint64,
) (k Keepalive, ttl time.Duration, err error) {
	_, err = c.try(ctx, limit, func(ctx context.Context, m *member) error {
		sent, resp, err := m.keepAlive(ctx, id)
		if err == nil {
			err = c.verify(m, resp.Header)
		}
		if err == nil && resp.Header.RaftTerm < minTerm {
			err = ErrBehind
		}
		if err != nil {
			return err
		}
		k, ttl = c.keepalive(sent, resp.Header), time.Duration(resp.TTL)*time.Second
		return nil
	})
	return k, ttl, err
}

// Grant asks for an etcd lease. The ids of other leases that may be granted by this Grant go to
// orphan, also when Grant fails.
func (c *Cluster) Grant(
	ctx context.Context, limit, ttl time.Duration, orphan func(clientv3.LeaseID),
) (lease Lease, err error) {
	var tried []clientv3.LeaseID // one for each attempt, so that a late copy doesn't grant the one in use
	_, err = c.try(ctx, limit, func(ctx context.Context, m *member) error {
		id, sent := newLeaseID(), driver.Stamp()
		resp, err := m.leases.LeaseGrant(ctx, &pb.LeaseGrantRequest{ID: int64(id), TTL: int64(ttl / time.Second)}, options(ctx)...)
		if err == nil || callOf(ctx).maybeDone(rpctypes.Error(err)) {
			tried = append(tried, id)
		}
		if err == nil {
			err = c.verify(m, resp.Header)
		}
		if err != nil {
			return err
		}
		lease = Lease{ID: id, TTL: time.Duration(resp.TTL) * time.Second, Keepalive: c.keepalive(sent, resp.Header)}
		return nil
	})
	for _, id := range tried {
		if err != nil || id != lease.ID {
			orphan(id)
		}
	}
	return lease, err
}

func (c *Cluster) keepalive(sent driver.Instant, h *pb.ResponseHeader) Keepalive {
	c.sawTerm(h.RaftTerm)
	return Keepalive{Sent: sent, Term: h.RaftTerm, Heard: c.nextSeq()}
}

// newLeaseID draws the id of an etcd lease, so that it is known, and can be revoked, when the
// answer to its Grant is lost.
func newLeaseID() clientv3.LeaseID {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return clientv3.LeaseID(binary.BigEndian.Uint64(b[:])>>1 | 1)
}

// TimeToLive returns how long an etcd lease lasts if it isn't refreshed, rounded down to seconds, and
// for how long it was granted; false if the cluster doesn't have it. It refreshes nothing.
func (c *Cluster) TimeToLive(
	ctx context.Context, limit time.Duration, id clientv3.LeaseID,
) (left, granted time.Duration, found bool, err error) {
	_, err = c.try(ctx, limit, func(ctx context.Context, m *member) error {
		resp, err := m.leases.LeaseTimeToLive(ctx, &pb.LeaseTimeToLiveRequest{ID: int64(id)}, options(ctx)...)
		if err == nil {
			err = c.verify(m, resp.Header)
		}
		if err != nil {
			return err
		}
		left, granted, found = time.Duration(resp.TTL)*time.Second, time.Duration(resp.GrantedTTL)*time.Second, resp.TTL >= 0
		return nil
	})
	return left, granted, found, err
}

// Revoke ends an etcd lease. It is no error when the cluster doesn't have it.
func (c *Cluster) Revoke(ctx context.Context, limit time.Duration, id clientv3.LeaseID) error {
	_, err := c.try(ctx, limit, func(ctx context.Context, m *member) error {
		resp, err := m.leases.LeaseRevoke(ctx, &pb.LeaseRevokeRequest{ID: int64(id)}, options(ctx)...)
		if err != nil {
			return err
		}
		return c.verify(m, resp.Header)
	})
	if errors.Is(err, rpctypes.ErrLeaseNotFound) {
		return nil
	}
	return err
}

// keepaliveStream is a stream of keepalives. It is kept for the next keepalive, because the client
// logs in for each stream, which costs the cluster a write and a slow hash. A stream that isn't in
// use costs a goroutine here and some in the member, and sends nothing.
type keepaliveStream struct {
	pb.Lease_LeaseKeepAliveClient
	cancel context.CancelFunc
}

// keepAlive sends one keepalive. A stream that was kept may have ended meanwhile: then a new one is
// opened.
func (m *member) keepAlive(ctx context.Context, id clientv3.LeaseID) (driver.Instant, *pb.LeaseKeepAliveResponse, error) {
	if s := m.takeStream(); s != nil {
		sent, resp, err := m.exchange(ctx, s, id)
		if err == nil || ctx.Err() != nil {
			return sent, resp, err
		}
	}
	s, err := m.openKeepalives(ctx)
	if err != nil {
		return 0, nil, err
	}
	return m.exchange(ctx, s, id)
}

// openKeepalives opens a stream that outlives ctx, which has the deadline of an attempt.
func (m *member) openKeepalives(ctx context.Context) (*keepaliveStream, error) {
	end, _ := ctx.Deadline()
	limit := max(time.Until(end), time.Millisecond) // the deadline may be over by now
	long, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, cancel)
	stream, err := openStream(long, limit, func(ctx context.Context) (pb.Lease_LeaseKeepAliveClient, error) {
		return m.leases.LeaseKeepAlive(ctx, options(ctx)...)
	})
	if err != nil || !stop() {
		cancel()
		if err == nil {
			err = ctx.Err()
		}
		return nil, err
	}
	return &keepaliveStream{stream, cancel}, nil
}

// exchange keeps a stream only if it has brought the answer: a later answer would be taken for the
// answer to the next keepalive.
func (m *member) exchange(
	ctx context.Context, s *keepaliveStream, id clientv3.LeaseID,
) (driver.Instant, *pb.LeaseKeepAliveResponse, error) {
	stop := context.AfterFunc(ctx, s.cancel)
	callOf(ctx).handed.Add(1)
	sent := driver.Stamp()
	_ = s.Send(&pb.LeaseKeepAliveRequest{ID: int64(id)}) // if it fails, Recv has the reason
	resp, err := s.Recv()
	if err != nil {
		s.cancel()
		stop()
		return 0, nil, err
	}
	if stop() {
		m.keepStream(s)
	}
	return sent, resp, nil
}

func (m *member) takeStream() *keepaliveStream {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.free) == 0 {
		return nil
	}
	s := m.free[len(m.free)-1]
	m.free = m.free[:len(m.free)-1]
	return s
}

func (m *member) keepStream(s *keepaliveStream) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed || len(m.free) == m.of.maxStreams {
		s.cancel()
		return
	}
	m.free = append(m.free, s)
}
