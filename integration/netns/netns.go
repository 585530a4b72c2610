// Package netns drops a client's packets below TCP.
//
// A proxy can't do that: if a relay has stopped reading, its kernel still acknowledges what
// arrives, including keepalives, so the server never notices that its client is cut off. A port
// that Docker publishes on 127.0.0.1 leads through such a relay, too. Here the client's connections
// begin in the network namespace of the server's own container, at an address of 127.0.0.0/8 that
// no other client has. A cut is a firewall rule of that namespace that drops the packets of that
// address. Nothing acknowledges packets in place of the client. The rules are removed with the
// container.
//
// The package needs Linux, root, iptables, and a container engine on this machine. [Usable] returns
// what is missing.
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

// Direction says which packets a cut drops, seen from the client.
type Direction int

const (
	Both     Direction = iota // no packet arrives, on either side
	Requests                  // what the client sends is lost; what the server sends arrives
	Replies                   // what the server sends is lost; what the client sends arrives
	Answered                  // no packet arrives; a reset answers the server's TCP packets
)

func (d Direction) String() string {
	return [...]string{"both directions", "requests alone", "replies alone", "both directions, with a reset"}[d]
}

// rules returns the iptables rules for a client's packets. They apply to packets that arrive,
// because the kernel reports a packet that is dropped on its way out to the program that sent it.
func (d Direction) rules(client string) [][]string {
	requests, replies := []string{"--source", client, "--jump", "DROP"}, []string{"--destination", client, "--jump", "DROP"}
	switch d {
	case Requests:
		return [][]string{requests}
	case Replies:
		return [][]string{replies}
	case Answered: // the reset comes from the client's address
		return [][]string{
			{"--source", client, "--protocol", "tcp", "!", "--tcp-flags", "RST", "RST", "--jump", "DROP"},
			{"--destination", client, "--protocol", "tcp", "--jump", "REJECT", "--reject-with", "tcp-reset"},
		}
	}
	return [][]string{requests, replies}
}

// Network is the network between one client and its servers. Its methods may be called at any time
// and from any goroutine.
type Network struct {
	client  netip.Addr
	servers map[string]int // by address: a process in the namespace of the server

	mu   sync.Mutex
	cuts map[int][][]string // by process: the rules that are in force
}

// New returns a network to servers that listen on 127.0.0.1 in their namespaces. servers maps the
// address that the client dials to a process of the server.
func New(servers map[string]int) (*Network, error) { return NewAs(nextClient(), servers) }

// NewAs is like [New], for a client whose address another process has chosen with New: one process
// dials, and the other drops its packets.
func NewAs(client netip.Addr, servers map[string]int) (*Network, error) {
	if err := Usable(); err != nil {
		return nil, err
	}
	return &Network{client: client, servers: servers, cuts: make(map[int][][]string)}, nil
}

// Client returns the address of the client.
func (n *Network) Client() netip.Addr { return n.client }

var clients atomic.Uint32

// nextClient returns an address that no other network of this process has. Test processes that run
// at the same time use different containers.
func nextClient() netip.Addr {
	n := clients.Add(1)
	return netip.AddrFrom4([4]byte{127, 77, byte(n / 250), byte(n%250 + 1)})
}

// Dial connects to a server. While the network is cut, it returns only when ctx ends.
func (n *Network) Dial(ctx context.Context, network, addr string) (conn net.Conn, err error) {
	pid, ok := n.servers[addr]
	if !ok {
		return nil, fmt.Errorf("netns: address %s is invalid: want the address of a server that New was given", addr)
	}
	d := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(n.client, 0))}
	inErr := inside(pid, func() { conn, err = d.DialContext(ctx, network, addr) })
	if inErr != nil {
		return nil, inErr
	}
	return conn, err
}

// Cut drops packets from now on, only in the direction d. It replaces an earlier cut.
func (n *Network) Cut(ctx context.Context, d Direction) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.heal(ctx); err != nil {
		return err
	}
	for _, pid := range n.namespaces() {
		for _, rule := range d.rules(n.client.String()) {
			if err := change(ctx, pid, "--insert", rule); err != nil {
				return err
			}
			n.cuts[pid] = append(n.cuts[pid], rule)
		}
	}
	return nil
}

// Heal ends a cut. TCP retransmits what was lost, on connections that still exist on both sides.
func (n *Network) Heal(ctx context.Context) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.heal(ctx)
}

func (n *Network) heal(ctx context.Context) error {
	for pid, rules := range n.cuts {
		for len(rules) > 0 {
			if err := change(ctx, pid, "--delete", rules[0]); err != nil {
				return err
			}
			rules = rules[1:]
			n.cuts[pid] = rules
		}
		delete(n.cuts, pid)
	}
	return nil
}

// namespaces returns one process of each namespace.
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

// change adds or deletes a rule.
func change(ctx context.Context, pid int, action string, rule []string) error {
	return command(ctx, pid, "iptables", append([]string{"--wait", action, "INPUT"}, rule...)...)
}
