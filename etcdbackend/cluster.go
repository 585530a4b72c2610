package etcdbackend

import (
	"context"
	"fmt"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// Which cluster answers. The header of an answer has the id of the member's cluster. The first
// answer that a Locker gets decides which cluster is its own, and answers of other clusters count
// for nothing: neither as a yes nor as a no. Such a member is left, like one that doesn't answer;
// what it was asked may have been executed, here or there.
//
// Addresses come to lead to another cluster when one of a test system is among the endpoints, when
// an address is used again for another machine, or when a member was wiped and started as a cluster
// of its own. A lock that is held in one cluster is free in the other, so without this the Locker
// would be let in next to the holder.
//
// The id is made of the token and the peer addresses with which a cluster was founded. A cluster
// that is founded again with the same ones has the same id: its lower term tells then (see grant).

// ours takes in the header of an answer of a member, and refuses that of another cluster.
func (s *server) ours(m *member, h *pb.ResponseHeader) error {
	id := h.GetClusterId()
	switch {
	case id == 0:
		return m.refuse(errProxy)
	case s.cluster.CompareAndSwap(0, id) || s.cluster.Load() == id:
		return nil
	}
	return fmt.Errorf("%w: %s", errForeign, m.host())
}

// known reports whether a member that has refused a request is one of our cluster. An error has no
// header. So a request follows that asks for nothing but that: a Txn without keys, which each user
// may send, also one without any permission. Where it isn't answered either, why says more about the
// member than the refusal does.
func (s *server) known(ctx context.Context, limit time.Duration, m *member) (why error) {
	return new(call).attempt(ctx, limit, m, func(ctx context.Context, m *member) error {
		resp, err := m.kv.Txn(ctx).Commit()
		if err != nil {
			return err
		}
		return s.ours(m, resp.Header)
	})
}
