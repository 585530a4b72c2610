//go:build unix

package itest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
)

// FreePorts finds ports of 127.0.0.1 for servers whose port must be known before they start, because they announce it to
// others, or must stay the same over a restart. They are below those that systems give to outgoing connections, so that
// none of these takes one while its server is down; and none is found twice, for the same reason.
func FreePorts(n int) ([]int, error) {
	const first, last = 20_000, 32_000
	found.Lock()
	defer found.Unlock()
	var ports []int
	for range 1000 {
		if len(ports) == n {
			return ports, nil
		}
		port := first + rand.IntN(last-first)
		if found.ports[port] {
			continue
		}
		l, err := net.Listen("tcp", LocalAddr(port))
		if err != nil {
			continue
		}
		_ = l.Close()
		found.ports[port] = true
		ports = append(ports, port)
	}
	return nil, fmt.Errorf("there are no %d free ports from %d to %d", n, first, last)
}

// found are the ports that this process has given away.
var found = struct {
	sync.Mutex
	ports map[int]bool
}{ports: make(map[int]bool)}

// LocalAddr is the address of a port of this host.
func LocalAddr(port int) string { return "127.0.0.1:" + strconv.Itoa(port) }
