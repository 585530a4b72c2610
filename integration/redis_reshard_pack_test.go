//go:build unix

package integration

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance"
	"github.com/fencedlock/locker/redisbackend"
)

// slotMovesSlowly moves a slot with a hundred locks in it, in steps that take longer than the TTL. Leases are released at each step.
func (s *redisService) slotMovesSlowly(t conformance.T, _ *conformance.Harness) {
	const leases, ttl = 100, 2 * shortTTL
	l, other, names := keep(t, s.open(t)), keep(t, s.open(t)), sameSlot(lockName(t), leases)
	m := s.newMove(t, names[0])
	held, last := make(map[string]locker.Lease), make(map[string]locker.Token)
	for _, name := range names {
		held[name] = acquire(t, l, name, locker.WithTTL(ttl))
		last[name] = held[name].Token()
	}
	// stand lets time go by in which leases that are not renewed are lost, and then some leases end.
	stand := func(step string, end []string) {
		t.Helper()
		pass(t, 2*ttl)
		for name, lease := range held {
			if err := lease.Err(); err != nil {
				t.Fatalf("%s: the lease of %q: %v, want nil", step, name, err)
			}
		}
		for i, name := range end {
			if i%2 == 0 { // the others have been renewed in the background
				if err := held[name].Renew(t.Context()); err != nil {
					t.Fatalf("%s: Renew = %v, want nil", step, err)
				}
			}
			release(t, held[name])
			delete(held, name)
			if m.exists(t, key(name)) {
				t.Errorf("%s: the key of %q is there after its release", step, name)
			}
		}
	}
	waits, polls := s.polling(t)
	before := polls.n.Load()
	waiter := wait(t, waits, names[0], locker.WithTTL(ttl))
	eventually(t, soon, func() error {
		if polls.n.Load() == before {
			return errors.New("the waiter has not had an answer")
		}
		return nil
	})

	m.open(t)
	stand("no key has moved", names[:20])
	if err := refused(t, soon, other, names[1]); !strings.Contains(err.Error(), "TRYAGAIN") {
		t.Errorf("TryAcquire of a free lock in a moving slot = %v, want TRYAGAIN", err)
	}
	for i, name := range names[20:60] {
		m.key(t, key(name)+[]string{"", ":token"}[i%2])
	}
	stand("the locks' keys have moved, or those of their tokens", names[20:60])
	m.rest(t)
	stand("all keys have moved", names[60:80])
	waiter.pending(t)
	m.close(t)
	stand("the slot has moved", names[80:])

	next := waiter.granted(t, soon)
	if next.Token() <= last[names[0]] {
		t.Errorf("token %v after %v", next.Token(), last[names[0]])
	}
	release(t, next)
	for _, name := range names {
		if token := free(t, soon, other, name); token <= last[name] {
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
func (s *redisService) polling(t conformance.T) (locker.Locker, *answers) {
	t.Helper()
	options := s.client
	client, count := redis.NewUniversalClient(&options), new(answers)
	client.AddHook(count)
	l, err := redisbackend.New(client)
	if err != nil {
		_ = client.Close()
		t.Fatalf("New = %v", err)
	}
	return keep(t, withClient{l, client}), count
}

// move is that of a slot from a node to another one, in the steps of redis-cli --cluster reshard.
type move struct {
	s          *redisService
	slot       int
	from, to   *redisNode
	idOf, idTo string // of those two
	isOpen     bool
}

// newMove prepares the move of the slot that has a lock, to any other node.
func (s *redisService) newMove(t conformance.T, name string) *move {
	t.Helper()
	m := &move{s: s, from: s.nodeOf(t, name)}
	for n := range s.names(t) {
		if n != m.from {
			m.to = n
		}
	}
	must(t, func(ctx context.Context) error {
		slot, err := m.from.admin.ClusterKeySlot(ctx, key(name)).Result()
		if m.slot = int(slot); err == nil && m.slot != slotOf(name) {
			err = fmt.Errorf("the slot of %q is %d, not %d", name, m.slot, slotOf(name))
		}
		if err == nil {
			m.idOf, err = m.from.clusterID(ctx)
		}
		if err == nil {
			m.idTo, err = m.to.clusterID(ctx)
		}
		return err
	})
	return m
}

func (m *move) open(t conformance.T) {
	t.Helper()
	must(t, func(ctx context.Context) error {
		if err := m.to.admin.Do(ctx, "cluster", "setslot", m.slot, "importing", m.idOf).Err(); err != nil {
			return err
		}
		return m.from.admin.Do(ctx, "cluster", "setslot", m.slot, "migrating", m.idTo).Err()
	})
	m.isOpen = true
	t.Cleanup(func() {
		for _, n := range []*redisNode{m.from, m.to} {
			if m.isOpen { // the case has failed; its keys are removed before the next one
				_ = n.admin.Do(context.Background(), "cluster", "setslot", m.slot, "stable").Err()
			}
		}
	})
}

// key moves one key, or none if it is not there.
func (m *move) key(t conformance.T, key string) {
	t.Helper()
	must(t, func(ctx context.Context) error {
		host, port, _ := strings.Cut(m.to.addr, ":")
		return m.from.admin.Do(ctx, "migrate", host, port, key, 0, 5000, "auth", redisPassword).Err()
	})
}

// rest moves all keys that are left.
func (m *move) rest(t conformance.T) {
	t.Helper()
	for {
		var keys []string
		must(t, func(ctx context.Context) (err error) {
			keys, err = m.from.admin.ClusterGetKeysInSlot(ctx, m.slot, 1000).Result()
			return err
		})
		if len(keys) == 0 {
			return
		}
		for _, k := range keys {
			m.key(t, k)
		}
	}
}

// close makes the new node the owner. It learns it first, so that at no time nobody owns the slot.
func (m *move) close(t conformance.T) {
	t.Helper()
	must(t, func(ctx context.Context) error {
		if err := m.to.admin.Do(ctx, "cluster", "setslot", m.slot, "node", m.idTo).Err(); err != nil {
			return err
		}
		return m.s.each(ctx, func(ctx context.Context, n *redisNode) error {
			return n.admin.Do(ctx, "cluster", "setslot", m.slot, "node", m.idTo).Err()
		})
	})
	m.isOpen = false
}

// exists asks both nodes for a key.
func (m *move) exists(t conformance.T, key string) (found bool) {
	t.Helper()
	must(t, func(ctx context.Context) error {
		for _, n := range []*redisNode{m.from, m.to} {
			keys, err := n.admin.Keys(ctx, key).Result() // unlike EXISTS, it doesn't ask who owns the slot
			if err != nil {
				return err
			}
			found = found || len(keys) > 0
		}
		return nil
	})
	return found
}

// sameSlot makes n names of locks that are in one slot.
func sameSlot(base string, n int) []string {
	names := []string{base}
	for i := 0; len(names) < n; i++ {
		if name := fmt.Sprint(base, "-", i); slotOf(name) == slotOf(base) {
			names = append(names, name)
		}
	}
	return names
}

// slotOf is the slot of a lock: see the Redis Cluster specification, "Key distribution model".
func slotOf(name string) int {
	crc := uint16(0)
	for _, c := range []byte(name) {
		crc = crc<<8 ^ crc16[byte(crc>>8)^c]
	}
	return int(crc) % clusterSlots
}

// crc16 is the table of CRC-16/XMODEM.
var crc16 = func() (table [256]uint16) {
	for i := range table {
		crc := uint16(i) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
		table[i] = crc
	}
	return table
}()

// slotMoves moves the slot of a held lock to the next node, and back.
func (s *redisService) slotMoves(t conformance.T, _ *conformance.Harness) {
	l, other, name := keep(t, s.open(t)), keep(t, s.open(t)), lockName(t)
	lease := acquire(t, l, name, locker.WithTTL(4*shortTTL))
	waiter := wait(t, other, name, locker.WithTTL(4*shortTTL))
	for m, moves := s.newMove(t, name), 0; moves < 2; moves++ {
		m.open(t)
		pass(t, shortTTL/2) // for requests to come in between
		for _, suffix := range []string{"", ":token"} {
			m.key(t, key(name)+suffix)
			pass(t, shortTTL/10)
		}
		m.rest(t)
		m.close(t)
		if err := lease.Renew(t.Context()); err != nil {
			t.Errorf("Renew after the slot was moved = %v, want nil", err)
		}
		pass(t, 2*shortTTL)
		held(t, lease, other)
		waiter.pending(t)
		m.from, m.to, m.idOf, m.idTo = m.to, m.from, m.idTo, m.idOf
	}
	release(t, lease)
	next := waiter.granted(t, soon)
	if next.Token() <= lease.Token() {
		t.Errorf("token %v after %v", next.Token(), lease.Token())
	}
	release(t, next)
}
