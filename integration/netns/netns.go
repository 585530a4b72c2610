// Package netns takes packets away from a client, below TCP.
//
// A proxy can't do that: the kernel goes on acknowledging for a relay that has stopped reading, keepalives included, so the server
// never notices that its client is cut off. A port that Docker publishes on 127.0.0.1 leads through such a relay as well. Here the
// client's connections begin in the network namespace of the server's own container, at an address of 127.0.0.0/8 that no other
// client has, and a cut is a rule of that namespace's firewall which drops the packets of that address. Nobody answers for the
// client. The rules end with the container.
//
// It needs Linux, root, iptables, and a container engine on this machine. [Usable] says what is missing.
package netns

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
)

// Direction is what a cut takes away, seen from the client.
type Direction int

const (
	Both     Direction = iota // no packet arrives, on either side
	Requests                  // what the client sends is lost; what the server sends arrives
	Replies                   // what the server sends is lost; what the client sends arrives
)

func (d Direction) String() string {
	return [...]string{"both directions", "requests alone", "replies alone"}[d]
}

// flags are those of iptables that choose a client's packets. Rules are for packets that arrive: the kernel reports a packet that
// is dropped on its way out to the program that sent it.
func (d Direction) flags() []string {
	return [...][]string{{"--source", "--destination"}, {"--source"}, {"--destination"}}[d]
}

// Network is the network between one client and its servers. Its methods may be called at any time, from any goroutine.
type Network struct {
	client  netip.Addr
	servers map[string]int // a process in the namespace of each server, by the server's address

	mu   sync.Mutex
	cuts map[int][]string // the flags of the rules that are in force, by the process
}

// New returns a network to servers whose addresses are of 127.0.0.1 within their namespaces. servers holds a process of each
// server, by the address that the client dials.
func New(servers map[string]int) (*Network, error) {
	if err := Usable(); err != nil {
		return nil, err
	}
	return &Network{client: nextClient(), servers: servers, cuts: make(map[int][]string)}, nil
}

var clients atomic.Uint32

// nextClient is an address that no other network of this process has. Processes that run side by side have containers of their own.
func nextClient() netip.Addr {
	n := clients.Add(1)
	return netip.AddrFrom4([4]byte{127, 77, byte(n / 250), byte(n%250 + 1)})
}

// Dial connects to a server. ctx bounds the dialling, which hangs while the network is cut.
func (n *Network) Dial(ctx context.Context, network, addr string) (conn net.Conn, err error) {
	pid, ok := n.servers[addr]
	if !ok {
		return nil, fmt.Errorf("netns: no server is known at %s", addr)
	}
	d := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(n.client, 0))}
	inErr := inside(pid, func() { conn, err = d.DialContext(ctx, network, addr) })
	if inErr != nil {
		return nil, inErr
	}
	return conn, err
}

// Cut drops packets from now on, in d alone. It replaces an earlier cut.
func (n *Network) Cut(ctx context.Context, d Direction) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.heal(ctx); err != nil {
		return err
	}
	for _, pid := range n.namespaces() {
		for _, flag := range d.flags() {
			if err := n.rule(ctx, pid, "--insert", flag); err != nil {
				return err
			}
			n.cuts[pid] = append(n.cuts[pid], flag)
		}
	}
	return nil
}

// Heal ends a cut. What was lost meanwhile is sent again by TCP, on connections that both sides still have.
func (n *Network) Heal(ctx context.Context) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.heal(ctx)
}

func (n *Network) heal(ctx context.Context) error {
	for pid, flags := range n.cuts {
		for len(flags) > 0 {
			if err := n.rule(ctx, pid, "--delete", flags[0]); err != nil {
				return err
			}
			flags = flags[1:]
			n.cuts[pid] = flags
		}
		delete(n.cuts, pid)
	}
	return nil
}

// namespaces lists one process of each namespace.
func (n *Network) namespaces() []int {
	seen := make(map[string]bool)
	var pids []int
	for _, pid := range n.servers {
		if id := namespaceOf(pid); !seen[id] {
			seen[id] = true
			pids = append(pids, pid)
		}
	}
	slices.Sort(pids)
	return pids
}

// rule adds or removes a rule.
func (n *Network) rule(ctx context.Context, pid int, action, flag string) error {
	return command(ctx, pid, "iptables", "--wait", action, "INPUT", flag, n.client.String(), "--jump", "DROP")
}
