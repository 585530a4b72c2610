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
	Answered                  // no packet arrives; something in between answers TCP's of the server by a reset
)

func (d Direction) String() string {
	return [...]string{"both directions", "requests alone", "replies alone", "both directions, with a reset"}[d]
}

// rules are what iptables is to do with a client's packets. They are for packets that arrive: the kernel reports a packet that is
// dropped on its way out to the program that sent it.
func (d Direction) rules(client string) [][]string {
	requests, replies := []string{"--source", client, "--jump", "DROP"}, []string{"--destination", client, "--jump", "DROP"}
	switch d {
	case Requests:
		return [][]string{requests}
	case Replies:
		return [][]string{replies}
	case Answered: // the reset has the client's address
		return [][]string{
			{"--source", client, "--protocol", "tcp", "!", "--tcp-flags", "RST", "RST", "--jump", "DROP"},
			{"--destination", client, "--protocol", "tcp", "--jump", "REJECT", "--reject-with", "tcp-reset"},
		}
	}
	return [][]string{requests, replies}
}

// Network is the network between one client and its servers. Its methods may be called at any time, from any goroutine.
type Network struct {
	client  netip.Addr
	servers map[string]int // a process in the namespace of each server, by the server's address

	mu   sync.Mutex
	cuts map[int][][]string // the rules that are in force, by the process
}

// New returns a network to servers whose addresses are of 127.0.0.1 within their namespaces. servers holds a process of each
// server, by the address that the client dials.
func New(servers map[string]int) (*Network, error) {
	if err := Usable(); err != nil {
		return nil, err
	}
	return &Network{client: nextClient(), servers: servers, cuts: make(map[int][][]string)}, nil
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
		for _, rule := range d.rules(n.client.String()) {
			if err := change(ctx, pid, "--insert", rule); err != nil {
				return err
			}
			n.cuts[pid] = append(n.cuts[pid], rule)
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

// change adds or removes a rule.
func change(ctx context.Context, pid int, action string, rule []string) error {
	return command(ctx, pid, "iptables", append([]string{"--wait", action, "INPUT"}, rule...)...)
}
