//go:build unix

package zk

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// zkCounter counts the requests of Lockers about nodes. It doesn't count requests that keep
// sessions alive: connecting, pings, reads of the root, and watches that are set again.
type zkCounter struct {
	n atomic.Int64

	mu    sync.Mutex
	kinds map[string]int // operation, and what its first node belongs to
}

// The operations of ZooKeeper's protocol that are counted.
var zkOps = map[int32]string{
	1: "create", 2: "delete", 3: "exists", 4: "getData", 5: "setData", 6: "getACL", 7: "setACL", 8: "getChildren", 9: "sync", 12: "getChildren",
	13: "check", 14: "multi", 15: "create", 16: "reconfig", 18: "removeWatches", 19: "create",
}

// taken returns what was counted since the last call, by kind.
func (c *zkCounter) taken() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	kinds := c.kinds
	c.kinds = nil
	return kinds
}

// count counts the operation of a packet: length, number, operation, and usually a path.
func (c *zkCounter) count(packet []byte) {
	const existsRoot = 4 + 4 + 4 + 4 + 1 + 1 // the size of that packet
	op := zkOps[int32(binary.BigEndian.Uint32(packet[8:]))]
	if op == "" || op == "exists" && len(packet) == existsRoot {
		return
	}
	c.n.Add(1)
	rest := packet[12:]
	if op == "multi" && len(rest) > 9 {
		if binary.BigEndian.Uint32(rest) == 13 {
			op = "multi of checks"
		}
		rest = rest[9:]
	}
	on := "other"
	if len(rest) >= 4 {
		path := string(rest[4:min(4+int(binary.BigEndian.Uint32(rest)), len(rest))])
		switch _, slot, isSlot := strings.Cut(path, "%s"); {
		case isSlot && strings.HasPrefix(slot, "line"):
			on = "line"
		case isSlot:
			on = "slot"
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.kinds == nil {
		c.kinds = make(map[string]int)
	}
	c.kinds[op+" "+on]++
}

func table(kinds map[string]int, by int) string {
	var lines []string
	for kind, n := range kinds {
		lines = append(lines, fmt.Sprintf("%s %.2f", kind, float64(n)/float64(by)))
	}
	slices.Sort(lines)
	return strings.Join(lines, ", ")
}

func (c *zkCounter) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return &zkCountedConn{Conn: conn, counter: c}, nil
}

type zkCountedConn struct {
	net.Conn
	counter   *zkCounter
	connected bool
}

// Write gets one packet, or several that are written together.
func (c *zkCountedConn) Write(data []byte) (int, error) {
	for rest := data; len(rest) >= 12; {
		size := min(4+int(binary.BigEndian.Uint32(rest)), len(rest))
		if c.connected {
			c.counter.count(rest[:size])
		}
		c.connected = true
		rest = rest[size:]
	}
	return c.Conn.Write(data)
}
