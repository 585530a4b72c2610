//go:build unix

package itest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

const (
	firstPort = 20_000
	lastPort  = 32_000 // and below the ports that systems give to outgoing connections
	blockSize = 200    // ports that a process takes at once
)

// FreePorts finds ports of 127.0.0.1 for servers whose port must be known before they start,
// because they announce it to others or must keep it after a restart. The ports are below the range
// of outgoing connections, so that no outgoing connection takes a port while its server is down.
// For the same reason no port is found twice. Packages are tested in parallel, so a process takes
// its ports from blocks that no other process has.
func FreePorts(n int) ([]int, error) {
	found.Lock()
	defer found.Unlock()
	var ports []int
	for len(ports) < n {
		if len(found.left) == 0 {
			if err := takeBlock(); err != nil {
				return nil, err
			}
		}
		port := found.left[0]
		found.left = found.left[1:]
		l, err := net.Listen("tcp", LocalAddr(port))
		if err != nil {
			continue
		}
		_ = l.Close()
		ports = append(ports, port)
	}
	return ports, nil
}

// found contains the ports that this process may still assign.
var found struct {
	sync.Mutex
	left   []int
	blocks []*os.File // locked until the process ends
}

// takeBlock takes a block of ports that no other process has.
func takeBlock() error {
	for _, i := range rand.Perm((lastPort - firstPort) / blockSize) {
		first := firstPort + i*blockSize
		file, err := os.OpenFile(filepath.Join(os.TempDir(), fmt.Sprintf("locker-integration-ports-%d", first)), os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			return err
		}
		if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil { // also if this process has it
			_ = file.Close()
			continue
		}
		found.blocks = append(found.blocks, file)
		for port := range blockSize {
			found.left = append(found.left, first+port)
		}
		return nil
	}
	return fmt.Errorf("other processes have all ports from %d to %d", firstPort, lastPort)
}

// LocalAddr returns the address of a port of this host.
func LocalAddr(port int) string { return "127.0.0.1:" + strconv.Itoa(port) }
