//go:build unix

package itest

import (
	"context"
	"net"
	"strconv"
	"strings"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance"
	"github.com/fencedlock/locker/integration/images"
	"github.com/fencedlock/locker/integration/netns"
)

// DialFunc makes a Locker's connections.
type DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error)

// CutTarget is a service whose packets can be dropped.
type CutTarget struct {
	Servers map[string]string // a container that has the server's network, by the server's address
	Open    func(conformance.T) locker.Locker
	Through func(conformance.T, DialFunc) locker.Locker
	Waiters func(t conformance.T, name string) int
}

// Processes is a process of each server, by the server's address.
func (at *CutTarget) Processes(t conformance.T) map[string]int {
	t.Helper()
	pids := make(map[string]int)
	Must(t, func(ctx context.Context) error {
		for addr, id := range at.Servers {
			text, err := images.Docker(ctx, "inspect", "--format", "{{.State.Pid}}", id)
			if err != nil {
				return err
			}
			if pids[addr], err = strconv.Atoi(strings.TrimSpace(text)); err != nil {
				return err
			}
		}
		return nil
	})
	return pids
}

// Network returns the network between one client and the service.
func (at *CutTarget) Network(t conformance.T) *netns.Network {
	t.Helper()
	network, err := netns.New(at.Processes(t))
	if err != nil {
		t.Fatalf("%v", err)
	}
	return network
}
