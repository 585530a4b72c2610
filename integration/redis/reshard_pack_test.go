//go:build unix

package redis

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance"
	"github.com/fencedlock/locker/conformance/step"
	"github.com/fencedlock/locker/integration/internal/itest"
	"github.com/fencedlock/locker/redisbackend"
)

// slotMovesSlowly moves a slot with a hundred locks in it, in steps that take longer than the TTL.
// Leases are released at each step.
func (s *Service) slotMovesSlowly(t conformance.T, _ *conformance.Harness) {
	const leases, ttl = 100, 3 * itest.ShortTTL
	l, other, names := step.CloseAtEnd(t, s.Open(t)), step.CloseAtEnd(t, s.Open(t)), sameSlot(step.LockName(t), leases)
	m := s.newMove(t, names[0])
	held, last := make(map[string]locker.Lease), make(map[string]locker.Token)
	for _, name := range names {
		held[name] = step.Acquire(t, l, name, locker.WithTTL(ttl))
		last[name] = held[name].Token()
	}
	// stand lets time go by in which leases that are not renewed are lost, and then some leases
	// end.
	stand := func(when string, end []string) {
		t.Helper()
		step.Pass(t, 2*ttl)
		for name, lease := range held {
			if err := lease.Err(); err != nil {
				t.Fatalf("%s: the lease of %q: %v, want nil", when, name, err)
			}
			if token, err := locker.CurrentToken(t.Context(), other, name, 0); err != nil || token != lease.Token() {
				t.Errorf("%s: Current = %v, %v, want %v", when, token, err, lease.Token())
			}
		}
		for i, name := range end {
			if i%2 == 0 { // the others have been renewed in the background
				if err := held[name].Renew(t.Context()); err != nil {
					t.Fatalf("%s: Renew = %v, want nil", when, err)
				}
			}
			step.Release(t, held[name])
			delete(held, name)
			if m.exists(t, key(name)) {
				t.Errorf("%s: the key of %q is there after its release", when, name)
			}
		}
	}
	waits, polls := s.polling(t)
	before := polls.n.Load()
	waiter := step.StartAcquire(t, waits, names[0], locker.WithTTL(ttl))
	step.Eventually(t, itest.ShortWait, func() error {
		if polls.n.Load() == before {
			return errors.New("the waiter has not had an answer")
		}
		return nil
	})

	m.open(t)
	stand("no key has moved", names[:20])
	if err := step.WantFailure(t, itest.ShortWait, other, names[1]); !strings.Contains(err.Error(), "TRYAGAIN") {
		t.Errorf("TryAcquire of a free lock in a moving slot = %v, want TRYAGAIN", err)
	}
	for i, name := range names[20:60] {
		m.key(t, key(name)+[]string{"", ":token"}[i%2])
	}
	stand("the locks' keys have moved, or those of their tokens", names[20:60])
	m.rest(t)
	stand("all keys have moved", names[60:80])
	waiter.WantPending(t)
	m.close(t)
	stand("the slot has moved", names[80:])

	next := waiter.Granted(t, itest.ShortWait)
	if next.Token() <= last[names[0]] {
		t.Errorf("token %v after %v", next.Token(), last[names[0]])
	}
	step.Release(t, next)
	for _, name := range names {
		if token := step.FreeWithin(t, itest.ShortWait, other, name); token <= last[name] {
			t.Errorf("lock %q: token %v after %v", name, token, last[name])
		}
	}
	if left := s.residue(t); left != "" {
		t.Errorf("there are %s", left)
	}
}

// answers counts the messages to which a client had an answer.
type answers struct{ n atomic.Int64 }

func (*answers) DialHook(next redis.DialHook) redis.DialHook { return next }

func (*answers) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (a *answers) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		if err == nil {
			a.n.Add(1)
		}
		return err
	}
}

// polling opens a Locker whose answers are counted.
func (s *Service) polling(t conformance.T) (locker.Locker, *answers) {
	t.Helper()
	options := s.client
	client, count := redis.NewUniversalClient(&options), new(answers)
	client.AddHook(count)
	l, err := redisbackend.New(t.Context(), client)
	if err != nil {
		_ = client.Close()
		t.Fatalf("New = %v", err)
	}
	return step.CloseAtEnd(t, itest.WithClient{Locker: l, Client: client}), count
}

// slotMoves moves the slot of a held lock to the next node, and back.
func (s *Service) slotMoves(t conformance.T, _ *conformance.Harness) {
	l, other, name := step.CloseAtEnd(t, s.Open(t)), step.CloseAtEnd(t, s.Open(t)), step.LockName(t)
	lease := step.Acquire(t, l, name, locker.WithTTL(4*itest.ShortTTL))
	waiter := step.StartAcquire(t, other, name, locker.WithTTL(4*itest.ShortTTL))
	for m, moves := s.newMove(t, name), 0; moves < 2; moves++ {
		m.open(t)
		step.Pass(t, itest.ShortTTL/2) // for requests to come in between
		for _, suffix := range []string{"", ":token"} {
			m.key(t, key(name)+suffix)
			step.Pass(t, itest.ShortTTL/10)
		}
		m.rest(t)
		m.close(t)
		if err := lease.Renew(t.Context()); err != nil {
			t.Errorf("Renew after the slot was moved = %v, want nil", err)
		}
		step.Pass(t, 2*itest.ShortTTL)
		step.WantLive(t, lease, other)
		waiter.WantPending(t)
		m.from, m.to, m.idOf, m.idTo = m.to, m.from, m.idTo, m.idOf
	}
	step.Release(t, lease)
	next := waiter.Granted(t, itest.ShortWait)
	if next.Token() <= lease.Token() {
		t.Errorf("token %v after %v", next.Token(), lease.Token())
	}
	step.Release(t, next)
}
