package etcdconn

import (
	"context"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
)

// Reply is the answer to a Txn. Its header has the term.
type Reply struct {
	*clientv3.TxnResponse
	Sent Seq  // before it was sent
	Late bool // a copy of the request may still be executed; set also when Txn fails
}

// Txn sends a transaction. It is linearizable when it writes, or reads in one of its branches.
func (c *Cluster) Txn(
	ctx context.Context, limit time.Duration, cmps []clientv3.Cmp, then, els []clientv3.Op,
) (r Reply, err error) {
	r.Late, err = c.try(ctx, limit, func(ctx context.Context, m *member) error {
		sent := c.nextSeq()
		resp, err := m.kv.Txn(ctx).If(cmps...).Then(then...).Else(els...).Commit()
		if err == nil {
			err = c.verify(m, resp.Header)
		}
		if err != nil {
			return err
		}
		c.sawTerm(resp.Header.RaftTerm)
		r.TxnResponse, r.Sent = resp, sent
		return nil
	})
	return r, err
}

// CountVoters returns how many members vote; 0 for a user without the permission to list the members.
func (c *Cluster) CountVoters(ctx context.Context) (n int, err error) {
	_, err = c.try(ctx, MaxAttempt, func(ctx context.Context, m *member) error {
		list, err := m.cluster.MemberList(ctx, &pb.MemberListRequest{}, options(ctx)...)
		if err == nil {
			err = c.verify(m, list.Header)
		}
		if err != nil {
			return err
		}
		n = 0
		for _, one := range list.Members {
			if !one.IsLearner {
				n++
			}
		}
		return nil
	})
	if Code(err) == codes.PermissionDenied {
		return 0, nil
	}
	return n, err
}

// Status is what a member says of itself.
type Status struct {
	Host    string
	Version string
	Err     error // the member doesn't answer, or is refused
}

// Survey asks until one member has answered, and then all others at the same time, each for limit
// at most. The first Status is of the member that has answered, or the error of all; it has no
// version if the user may not ask for it.
func (c *Cluster) Survey(ctx context.Context, limit time.Duration) []Status {
	var first *member
	var all []Status
	_, err := c.try(ctx, MaxAttempt, func(ctx context.Context, m *member) error {
		first = m
		version, err := c.version(ctx, m)
		all = []Status{{Host: m.host(), Version: version}}
		return err
	})
	if err != nil && Code(err) != codes.PermissionDenied {
		return []Status{{Err: err}}
	}
	var asking sync.WaitGroup
	var mu sync.Mutex
	for _, m := range c.allMembers() {
		if m == first {
			continue
		}
		asking.Go(func() {
			s := Status{Host: m.host()}
			s.Err = new(call).attempt(ctx, limit, m, func(ctx context.Context, m *member) (err error) {
				s.Version, err = c.version(ctx, m)
				return err
			})
			mu.Lock()
			defer mu.Unlock()
			all = append(all, s)
		})
	}
	asking.Wait()
	return all
}

func (c *Cluster) version(ctx context.Context, m *member) (string, error) {
	status, err := m.maintenance.Status(ctx, &pb.StatusRequest{}, options(ctx)...)
	if err != nil {
		return "", err
	}
	return status.Version, c.verify(m, status.Header)
}
