//go:build unix

package integration

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"

	"github.com/fencedlock/locker/integration/images"
)

// peers is a network for the members of a cluster among themselves. Clients don't come through it: they use the ports that each
// member publishes. So a member can be cut off from the others and go on talking to its clients, also while it is paused.
type peers struct {
	id    string
	addrs netip.Prefix
}

// newPeers makes the network. TestMain removes it.
func newPeers(ctx context.Context) (p *peers, err error) {
	for range 20 { // others have networks there too
		p = &peers{addrs: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(200 + rand.IntN(50)), byte(rand.IntN(256)), byte(16 * rand.IntN(16))}), 28)}
		name := "locker-" + strings.NewReplacer(".", "-", "/", "-").Replace(p.addrs.String())
		p.id, err = images.Docker(ctx, "network", "create", "--internal", "--subnet", p.addrs.String(), "--label", owner+"="+me(), name)
		if err == nil {
			return p, nil
		}
	}
	return nil, fmt.Errorf("there is no free range of addresses for a network: %w", err)
}

// addr is the address of a member, which has it for ever.
func (p *peers) addr(member int) string {
	addr := p.addrs.Addr().As4()
	addr[3] += byte(2 + member) // the first is the gateway's
	return netip.AddrFrom4(addr).String()
}

// join connects a member with the others: for the first time, or again.
func (p *peers) join(ctx context.Context, c *container, member int) error {
	_, err := images.Docker(ctx, "network", "connect", "--ip", p.addr(member), p.id, c.id)
	return err
}

// cut lets nothing through to and from a member any more, without a word to either side.
func (p *peers) cut(ctx context.Context, c *container) error {
	_, err := images.Docker(ctx, "network", "disconnect", p.id, c.id)
	return err
}

// removeNetworksIf removes networks by their owner. Nothing may be connected with them.
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
