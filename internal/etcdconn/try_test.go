package etcdconn

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// A caller's time may be over while a member is at work. Others go on with that member, until callers have
// waited for it for half of an attempt, all in all.
func TestCallersThatGiveUp(t *testing.T) {
	const limit = 2 * time.Second
	for _, c := range []struct {
		why     string
		callers []time.Duration // the time that each has, one after the other
		answers bool            // to a caller before the last one
		left    bool
	}{
		{"one, early", []time.Duration{50 * time.Millisecond}, false, false},
		{"one, late", []time.Duration{1600 * time.Millisecond}, false, true},
		{"some, early", []time.Duration{400 * time.Millisecond, 400 * time.Millisecond}, false, false},
		{"many, early", slices.Repeat([]time.Duration{400 * time.Millisecond}, 4), false, true},
		{"many, and one with an answer", slices.Repeat([]time.Duration{400 * time.Millisecond}, 3), true, false},
	} {
		t.Run(c.why, func(t *testing.T) {
			t.Parallel()
			var silent atomic.Bool
			var addrs []string
			for range 5 {
				addrs = append(addrs, serve(t, func(ctx context.Context) (*pb.TxnResponse, error) {
					if silent.Load() {
						<-ctx.Done()
					}
					return &pb.TxnResponse{Header: &pb.ResponseHeader{ClusterId: 1}}, ctx.Err()
				}))
			}
			cluster := newCluster(t, clientv3.Config{Endpoints: addrs})
			ask := func(patience time.Duration) error {
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				_, err := cluster.Txn(ctx, limit, nil, nil, nil)
				return err
			}
			answered := func() {
				silent.Store(false)
				if err := ask(10 * time.Second); err != nil {
					t.Fatalf("Txn = %v", err)
				}
			}
			answered()
			before, waited := cluster.Host(), time.Duration(0)
			for i, patience := range c.callers {
				if c.answers && i == len(c.callers)-1 {
					answered()
					waited = 0
				}
				silent.Store(true)
				began := time.Now()
				if err := ask(patience); err == nil {
					t.Error("Txn = nil, want no answer")
				}
				waited += time.Since(began) // more than it has, if this process is slow
			}
			if left := cluster.Host() != before; left != c.left && waited < limit/2 || !left && c.left {
				t.Errorf("the member was left after %v: %v, want %v", waited, left, c.left)
			}
		})
	}
}

// Callers that give up at the same time have waited once.
func TestSilenceIsCountedOnce(t *testing.T) {
	bubble(t, "in a bubble", func(t *testing.T) {
		const limit = 2 * time.Second
		m := &member{}
		began := time.Now()
		time.Sleep(limit / 8)
		for range 100 {
			m.noteSilence(began, true)
		}
		if m.isSilent(limit) {
			t.Errorf("100 callers that gave up after %v count for %v", limit/8, m.silence)
		}
		time.Sleep(limit / 4)
		m.noteSilence(time.Now().Add(-limit/8), true)
		if m.isSilent(limit) {
			t.Errorf("a time in which nobody waited counts: %v", m.silence)
		}
		m.noteSilence(began, true)
		time.Sleep(limit / 8)
		m.noteSilence(began, true)
		if !m.isSilent(limit) {
			t.Errorf("a caller that has waited for %v counts for %v", limit/2, m.silence)
		}
	})
}

// A member that was left for its silence may be well when its turn comes again: what was counted before
// doesn't count then.
func TestSilenceIsForgottenWhenAMemberIsLeft(t *testing.T) {
	t.Parallel()
	const limit = 2 * time.Second
	var silent atomic.Bool
	var addrs []string
	for range 2 {
		addrs = append(addrs, serve(t, func(ctx context.Context) (*pb.TxnResponse, error) {
			if silent.Load() {
				<-ctx.Done()
			}
			return &pb.TxnResponse{Header: &pb.ResponseHeader{ClusterId: 1}}, ctx.Err()
		}))
	}
	cluster := newCluster(t, clientv3.Config{Endpoints: addrs})
	ask := func(patience time.Duration) {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		if _, err := cluster.Txn(ctx, limit, nil, nil, nil); (err != nil) != silent.Load() {
			t.Fatalf("Txn = %v while the members are silent: %v", err, silent.Load())
		}
	}
	ask(10 * time.Second)
	first := cluster.Host()
	silent.Store(true)
	for range addrs { // each is left in turn
		before := cluster.Host()
		ask(limit * 3 / 4)
		if cluster.Host() == before {
			t.Fatalf("%s was silent for more than half of an attempt, and was not left", before)
		}
	}
	began := time.Now()
	if ask(50 * time.Millisecond); cluster.Host() != first && time.Since(began) < limit/2 {
		t.Error("a member was left for a silence that was before it was left the last time")
	}
}
