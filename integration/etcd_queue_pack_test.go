//go:build unix

package integration

import (
	"context"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance"
)

// longQueue counts the bytes that the members send while one place in a queue is renewed. Those
// before it are keys of nobody.
func (s *etcdService) longQueue(t conformance.T, _ *conformance.Harness) {
	const others, atOnce = 2048, 128
	name := lockName(t)
	must(t, func(ctx context.Context) error {
		for i := range others / atOnce {
			var puts []clientv3.Op
			for j := range atOnce {
				puts = append(puts, clientv3.OpPut(fmt.Sprintf("%sother%05d", etcdDir(name), i*atOnce+j), ""))
			}
			if _, err := s.members[0].admin.Txn(ctx).Then(puts...).Commit(); err != nil {
				return err
			}
		}
		return nil
	})
	l := keep(t, s.open(t))
	waiter := wait(t, l, name, locker.WithTTL(etcdTTL))
	eventually(t, soon, func() error {
		if n := s.waiters(t, name); n != others {
			return fmt.Errorf("%d wait, want %d", n, others)
		}
		return nil
	})
	pass(t, etcdTTL/3) // until its watch is confirmed
	const sent = "etcd_network_client_grpc_sent_bytes_total"
	before, requests := s.sum(t, sent), s.requests(t)
	pass(t, 2*etcdTTL)
	bytes, requests := s.sum(t, sent)-before, s.requests(t)-requests
	t.Logf("%d requests for renewals in a queue of %d were answered with %d bytes", requests, others, bytes)
	if requests < 6 {
		t.Errorf("%d requests, want those of three renewals at least", requests)
	}
	if most := 1000 * requests; bytes > most {
		t.Errorf("%d requests were answered with %d bytes, want %d at most", requests, bytes, most)
	}
	waiter.pending(t)
	must(t, func(ctx context.Context) error {
		_, err := s.members[0].admin.Delete(ctx, etcdDir(name)+"other", clientv3.WithPrefix())
		return err
	})
	release(t, waiter.granted(t, etcdTTL+soon))
}
