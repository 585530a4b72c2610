//go:build unix

package integration

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// freePorts finds ports of 127.0.0.1 for servers whose port must be known before they start, because they announce it to
// others, or must stay the same over a restart. They are below those that systems give to outgoing connections, so that
// none of these takes one while its server is down.
func freePorts(n int) ([]int, error) {
	const first, last = 20_000, 32_000
	var ports []int
	for range 1000 {
		if len(ports) == n {
			return ports, nil
		}
		port := first + rand.IntN(last-first)
		l, err := net.Listen("tcp", local(port))
		if err != nil {
			continue
		}
		defer l.Close() // in the end, so that none is found twice
		ports = append(ports, port)
	}
	return nil, fmt.Errorf("there are no %d free ports from %d to %d", n, first, last)
}

// local is the address of a port of this host.
func local(port int) string { return "127.0.0.1:" + strconv.Itoa(port) }
