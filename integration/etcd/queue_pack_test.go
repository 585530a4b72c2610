//go:build unix

package etcd

import (
	"context"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance"
	"github.com/fencedlock/locker/conformance/step"
	"github.com/fencedlock/locker/integration/internal/itest"
)

// longQueue counts the bytes that the members send while one place in a queue is renewed. Those
// before it are keys of nobody.
func (s *Service) longQueue(t conformance.T, _ *conformance.Harness) {
	const others, atOnce = 2048, 128
	name := step.LockName(t)
	itest.Must(t, func(ctx context.Context) error {
		for i := range others / atOnce {
			var puts []clientv3.Op
			for j := range atOnce {
				puts = append(puts, clientv3.OpPut(fmt.Sprintf("%sother%05d", etcdDir(name), i*atOnce+j), ""))
			}
			if _, err := s.Members[0].admin.Txn(ctx).Then(puts...).Commit(); err != nil {
				return err
			}
		}
		return nil
	})
	l := step.CloseAtEnd(t, s.Open(t))
	waiter := step.StartAcquire(t, l, name, locker.WithTTL(TTL))
	step.Eventually(t, itest.ShortWait, func() error {
		if n := s.Waiters(t, name); n != others {
			return fmt.Errorf("%d wait, want %d", n, others)
		}
		return nil
	})
	step.Pass(t, TTL/3) // until its watch is confirmed
	const sent = "etcd_network_client_grpc_sent_bytes_total"
	before, requests := s.sum(t, sent), s.requests(t)
	step.Pass(t, 2*TTL)
	bytes, requests := s.sum(t, sent)-before, s.requests(t)-requests
	t.Logf("%d requests for renewals in a queue of %d were answered with %d bytes", requests, others, bytes)
	if requests < 6 {
		t.Errorf("%d requests, want those of three renewals at least", requests)
	}
	if most := 1000 * requests; bytes > most {
		t.Errorf("%d requests were answered with %d bytes, want %d at most", requests, bytes, most)
	}
	waiter.WantPending(t)
	itest.Must(t, func(ctx context.Context) error {
		_, err := s.Members[0].admin.Delete(ctx, etcdDir(name)+"other", clientv3.WithPrefix())
		return err
	})
	step.Release(t, waiter.Granted(t, TTL+itest.ShortWait))
}
