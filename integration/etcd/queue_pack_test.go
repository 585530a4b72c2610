//go:build unix

package etcd

import (
	"context"
	"fmt"
	"sync"

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

// keysUsedAgain counts the keys that one Locker puts for many acquisitions of a name: alone, and two
// callers that want it at the same time.
func (s *Service) keysUsedAgain(t conformance.T, _ *conformance.Harness) {
	const alone, each, most = 30, 15, 10
	l, name := step.CloseAtEnd(t, s.Open(t)), step.LockName(t)
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(context.Background()))
	t.Cleanup(cancel)
	events := s.Members[0].admin.Watch(ctx, etcdDir(name), clientv3.WithPrefix(), clientv3.WithFilterDelete(), clientv3.WithCreatedNotify())
	if first := <-events; !first.Created {
		t.Fatalf("the watch begins with %+v", first)
	}
	for range alone {
		step.Release(t, step.Acquire(t, l, name, locker.WithTTL(itest.LongTTL)))
	}
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() {
			for range each {
				if err := locker.Do(ctx, l, name, func(context.Context, locker.Lease) error { return nil }, locker.WithTTL(itest.LongTTL)); err != nil {
					t.Errorf("Do = %v", err)
				}
			}
		})
	}
	both.Wait()
	keys := make(map[string]int)
	for puts := 0; puts < alone+2*each; {
		r, open := <-events
		if !open || r.Err() != nil {
			t.Fatalf("the watch has ended: %v", r.Err())
		}
		for _, e := range r.Events {
			keys[string(e.Kv.Key)]++
			puts++
		}
	}
	if len(keys) > most {
		t.Errorf("%d acquisitions have put %d keys, want %d at most: %v", alone+2*each, len(keys), most, keys)
	}
}
