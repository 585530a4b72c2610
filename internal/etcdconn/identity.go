package etcdconn

import (
	"context"
	"fmt"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// Which cluster answers. The header of an answer has the id of the member's cluster. The first
// answer decides which cluster is the own one, and answers of other clusters count for nothing:
// neither as a yes nor as a no. A member of another cluster is left, like one that doesn't answer;
// what it was asked may have been executed, in its cluster or in the own one.
//
// An address leads to another cluster when a member of a test system is among the endpoints, when
// the address is used again for another machine, or when a member was wiped and started as a
// cluster of its own. What is reserved in one cluster is free in the other one.
//
// The id is computed from the token and the peer addresses with which a cluster was founded. A
// cluster that is founded again with the same ones has the same id. It is recognised by its lower
// term.

// verify takes in the header of an answer of a member, and refuses another cluster's.
func (c *Cluster) verify(m *member, h *pb.ResponseHeader) error {
	id := h.GetClusterId()
	switch {
	case id == 0:
		return m.refuse(errProxy)
	case c.id.CompareAndSwap(0, id) || c.id.Load() == id:
		return nil
	}
	return fmt.Errorf("%w: %s", ErrForeign, m.host())
}

// verifyRefusal finds out whether a member that has refused a request belongs to the own cluster.
// An error has no header. So the member is asked for nothing but a header: by a Txn without keys,
// which each user may send, also one without any permission. If the member doesn't answer that
// either, the reason says more about the member than the refusal does.
func (c *Cluster) verifyRefusal(ctx context.Context, limit time.Duration, m *member) error {
	return new(call).attempt(ctx, limit, m, func(ctx context.Context, m *member) error {
		resp, err := m.kv.Txn(ctx).Commit()
		if err != nil {
			return err
		}
		return c.verify(m, resp.Header)
	})
}
