//go:build unix

package itest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"

	"github.com/fencedlock/locker/integration/images"
)

// Peers is a network between the members of a cluster. Clients don't use it: they use the ports
// that each member publishes. So a member can be cut off from the others while its clients still
// reach it. Members can be cut off while they are paused, too.
type Peers struct {
	ID    string
	addrs netip.Prefix
}

// NewPeers makes the network. Main removes it.
func NewPeers(ctx context.Context) (p *Peers, err error) {
	for range 20 { // others have networks there too
		p = &Peers{addrs: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(200 + rand.IntN(50)), byte(rand.IntN(256)), byte(16 * rand.IntN(16))}), 28)}
		name := "locker-" + strings.NewReplacer(".", "-", "/", "-").Replace(p.addrs.String())
		p.ID, err = images.Docker(ctx, "network", "create", "--internal", "--subnet", p.addrs.String(), "--label", owner+"="+me(), name)
		if err == nil {
			return p, nil
		}
	}
	return nil, fmt.Errorf("there is no free range of addresses for a network: %w", err)
}

// Addr returns the address of a member. It never changes.
func (p *Peers) Addr(member int) string {
	addr := p.addrs.Addr().As4()
	addr[3] += byte(2 + member) // the first is the gateway's
	return netip.AddrFrom4(addr).String()
}

// Join connects a member with the others, for the first time or again.
func (p *Peers) Join(ctx context.Context, c *Container, member int) error {
	_, err := images.Docker(ctx, "network", "connect", "--ip", p.Addr(member), p.ID, c.ID)
	return err
}

// Cut drops all packets to and from a member. Neither side is notified.
func (p *Peers) Cut(ctx context.Context, c *Container) error {
	_, err := images.Docker(ctx, "network", "disconnect", p.ID, c.ID)
	return err
}

// removeNetworksIf removes networks by their owner. No container may be connected to them.
func removeNetworksIf(ctx context.Context, cond func(owner string) bool) error {
	list, err := images.Docker(ctx, "network", "ls", "--no-trunc", "--filter", "label="+owner, "--format", `{{.ID}} {{.Label "`+owner+`"}}`)
	if err != nil {
		return err
	}
	for line := range strings.Lines(list) {
		id, owner, _ := strings.Cut(strings.TrimSpace(line), " ")
		if !cond(owner) {
			continue
		}
		if _, err := images.Docker(ctx, "network", "rm", id); err != nil {
			return err
		}
	}
	return nil
}
