package etcdbackend_test

import (
	"cmp"
	"context"
	"maps"
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// What the fake cluster answers: transactions, and the calls about leases.

func (c *cluster) header() *pb.ResponseHeader {
	return &pb.ResponseHeader{ClusterId: max(c.id, 1), Revision: c.revision, RaftTerm: c.term}
}

func (c *cluster) Txn(ctx context.Context, r *pb.TxnRequest) (*pb.TxnResponse, error) {
	if c.onTxn != nil {
		return c.onTxn(ctx, r)
	}
	return c.txn(r)
}

func (c *cluster) txn(r *pb.TxnRequest) (*pb.TxnResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	resp := &pb.TxnResponse{Succeeded: !slices.ContainsFunc(r.Compare, c.differs)}
	ops := r.Success
	if !resp.Succeeded {
		ops = r.Failure
	}
	for _, op := range ops {
		if put := op.GetRequestPut(); put != nil && !put.IgnoreLease && !c.leases[put.Lease] {
			return nil, rpctypes.ErrGRPCLeaseNotFound
		}
	}
	if slices.ContainsFunc(ops, func(op *pb.RequestOp) bool { return op.GetRequestRange() == nil }) {
		c.revision++
	}
	for _, op := range ops {
		resp.Responses = append(resp.Responses, c.execute(op))
	}
	resp.Header = c.header()
	return resp, nil
}

func (c *cluster) differs(is *pb.Compare) bool {
	kv := c.get(string(is.Key))
	switch is.Target {
	case pb.Compare_CREATE:
		return kv.CreateRevision != is.GetCreateRevision()
	case pb.Compare_MOD:
		return kv.ModRevision != is.GetModRevision()
	case pb.Compare_LEASE:
		return kv.Lease != is.GetLease()
	}
	panic("not needed so far")
}

func (c *cluster) execute(op *pb.RequestOp) *pb.ResponseOp {
	if put := op.GetRequestPut(); put != nil {
		kv := &mvccpb.KeyValue{Key: put.Key, CreateRevision: c.revision, ModRevision: c.revision, Lease: put.Lease, Value: put.Value}
		if old := c.keys[string(put.Key)]; old != nil {
			kv.CreateRevision = old.CreateRevision
			if put.IgnoreValue {
				kv.Value = old.Value
			}
			if put.IgnoreLease {
				kv.Lease = old.Lease
			}
		}
		c.keys[string(put.Key)] = kv
		return &pb.ResponseOp{Response: &pb.ResponseOp_ResponsePut{ResponsePut: &pb.PutResponse{}}}
	}
	if del := op.GetRequestDeleteRange(); del != nil {
		delete(c.keys, string(del.Key))
		return &pb.ResponseOp{Response: &pb.ResponseOp_ResponseDeleteRange{ResponseDeleteRange: &pb.DeleteRangeResponse{}}}
	}
	r, found := op.GetRequestRange(), &pb.RangeResponse{}
	for _, key := range slices.Sorted(maps.Keys(c.keys)) {
		if key == string(r.Key) || key > string(r.Key) && key < string(r.RangeEnd) {
			c.visited++
			if kv := c.keys[key]; r.MaxCreateRevision == 0 || kv.CreateRevision <= r.MaxCreateRevision {
				if r.KeysOnly {
					kv = &mvccpb.KeyValue{Key: kv.Key, CreateRevision: kv.CreateRevision, ModRevision: kv.ModRevision, Lease: kv.Lease}
				}
				found.Kvs = append(found.Kvs, kv)
				found.Count++
			}
		}
	}
	if r.SortTarget == pb.RangeRequest_CREATE {
		slices.SortFunc(found.Kvs, func(a, b *mvccpb.KeyValue) int { return cmp.Compare(a.CreateRevision, b.CreateRevision) })
	}
	if r.Limit > 0 && found.Count > r.Limit {
		found.Kvs, found.More = found.Kvs[:r.Limit], true
	}
	return &pb.ResponseOp{Response: &pb.ResponseOp_ResponseRange{ResponseRange: found}}
}

func (c *cluster) LeaseGrant(_ context.Context, r *pb.LeaseGrantRequest) (*pb.LeaseGrantResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.leases[r.ID] = true
	c.asked, c.least[r.ID] = append(c.asked, r.TTL), r.TTL
	ttl := r.TTL
	if c.ttlOf != nil {
		ttl = c.ttlOf(ttl)
	}
	return &pb.LeaseGrantResponse{Header: c.header(), ID: r.ID, TTL: ttl}, nil
}

func (c *cluster) LeaseRevoke(_ context.Context, r *pb.LeaseRevokeRequest) (*pb.LeaseRevokeResponse, error) {
	if c.onRevoke != nil {
		c.onRevoke()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.revision++
	delete(c.leases, r.ID)
	maps.DeleteFunc(c.keys, func(_ string, kv *mvccpb.KeyValue) bool { return kv.Lease == r.ID })
	return &pb.LeaseRevokeResponse{Header: c.header()}, nil
}

func (c *cluster) LeaseTimeToLive(_ context.Context, r *pb.LeaseTimeToLiveRequest) (*pb.LeaseTimeToLiveResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.looked++
	resp := &pb.LeaseTimeToLiveResponse{Header: c.header(), ID: r.ID, TTL: -1}
	if c.leases[r.ID] {
		resp.TTL, resp.GrantedTTL = c.least[r.ID], c.least[r.ID]
	}
	return resp, nil
}

func (c *cluster) LeaseKeepAlive(stream pb.Lease_LeaseKeepAliveServer) error {
	for {
		r, err := stream.Recv()
		if err != nil {
			return err
		}
		c.mu.Lock()
		resp := &pb.LeaseKeepAliveResponse{Header: c.header(), ID: r.ID}
		if c.leases[r.ID] {
			resp.TTL = c.least[r.ID]
			if c.left != nil {
				resp.TTL = c.left(resp.TTL)
			}
		}
		c.mu.Unlock()
		if err := stream.Send(resp); err != nil {
			return err
		}
	}
}
