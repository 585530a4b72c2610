//go:build unix

package redis

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/fencedlock/locker/conformance"
	"github.com/fencedlock/locker/integration/internal/itest"
)

// move is the move of a slot from a node to another one, in the steps of redis-cli --cluster reshard.
type move struct {
	s          *Service
	slot       int
	from, to   *Node
	idOf, idTo string // of those two
	isOpen     bool
}

// newMove prepares the move of the slot that has a lock, to any other node.
func (s *Service) newMove(t conformance.T, name string) *move {
	t.Helper()
	m := &move{s: s, from: s.nodeOf(t, name)}
	for n := range s.names(t) {
		if n != m.from {
			m.to = n
		}
	}
	itest.Must(t, func(ctx context.Context) error {
		slot, err := m.from.Admin.ClusterKeySlot(ctx, key(name)).Result()
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
	itest.Must(t, func(ctx context.Context) error {
		if err := m.to.Admin.Do(ctx, "cluster", "setslot", m.slot, "importing", m.idOf).Err(); err != nil {
			return err
		}
		return m.from.Admin.Do(ctx, "cluster", "setslot", m.slot, "migrating", m.idTo).Err()
	})
	m.isOpen = true
	t.Cleanup(func() {
		for _, n := range []*Node{m.from, m.to} {
			if m.isOpen { // the case has failed; its keys are removed before the next one
				_ = n.Admin.Do(context.Background(), "cluster", "setslot", m.slot, "stable").Err()
			}
		}
	})
}

// key moves one key, or none if it is not there.
func (m *move) key(t conformance.T, key string) {
	t.Helper()
	itest.Must(t, func(ctx context.Context) error {
		host, port, _ := strings.Cut(m.to.Addr, ":")
		return m.from.Admin.Do(ctx, "migrate", host, port, key, 0, 5000, "auth", Password).Err()
	})
}

// rest moves all keys that are left.
func (m *move) rest(t conformance.T) {
	t.Helper()
	for {
		var keys []string
		itest.Must(t, func(ctx context.Context) (err error) {
			keys, err = m.from.Admin.ClusterGetKeysInSlot(ctx, m.slot, 1000).Result()
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
	itest.Must(t, func(ctx context.Context) error {
		if err := m.to.Admin.Do(ctx, "cluster", "setslot", m.slot, "node", m.idTo).Err(); err != nil {
			return err
		}
		return m.s.each(ctx, func(ctx context.Context, n *Node) error {
			return n.Admin.Do(ctx, "cluster", "setslot", m.slot, "node", m.idTo).Err()
		})
	})
	m.isOpen = false
}

// exists asks both nodes for a key.
func (m *move) exists(t conformance.T, key string) (found bool) {
	t.Helper()
	itest.Must(t, func(ctx context.Context) error {
		for _, n := range []*Node{m.from, m.to} {
			keys, err := n.Admin.Keys(ctx, key).Result() // unlike EXISTS, it doesn't ask who owns the slot
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
	names, slot := []string{base}, slotOf(base)
	begun := crcOf(0, []byte(base+"-")) // there are more than a million tries for a hundred names
	var number []byte
	for i := int64(0); len(names) < n; i++ {
		number = strconv.AppendInt(number[:0], i, 10)
		if int(crcOf(begun, number))%clusterSlots == slot {
			names = append(names, fmt.Sprint(base, "-", i))
		}
	}
	return names
}

// slotOf is the slot of a lock: see the Redis Cluster specification, "Key distribution model".
func slotOf(name string) int { return int(crcOf(0, []byte(name))) % clusterSlots }

// crcOf is the CRC of what crc is the CRC of, followed by data.
func crcOf(crc uint16, data []byte) uint16 {
	for _, c := range data {
		crc = crc<<8 ^ crc16[byte(crc>>8)^c]
	}
	return crc
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
