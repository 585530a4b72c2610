package main

import (
	"cmp"
	"context"
	"net"
	"time"

	"github.com/fencedlock/locker/integration/netns"
)

// dialer makes the contender's connections: from an address of its own within the servers' network
// if its packets may be dropped, through relays if there are some.
func (t task) dialer() (dialFunc, error) {
	dial := new(net.Dialer).DialContext
	if t.Network != 0 {
		n, err := netns.NewAs(t.From, processes(t.Addrs, t.Network))
		if err != nil {
			return nil, err
		}
		dial = n.Dial
	}
	if t.Via != nil {
		direct := dial
		dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
			return direct(ctx, network, cmp.Or(t.Via[addr], addr))
		}
	}
	if t.Delay == 0 {
		return dial, nil
	}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return &slowConn{Conn: conn, delay: t.Delay}, nil
	}, nil
}

// processes is the same process for all addresses.
func processes(addrs []string, pid int) map[string]int {
	all := make(map[string]int)
	for _, addr := range addrs {
		all[addr] = pid
	}
	return all
}

// slowConn delivers what arrives later.
type slowConn struct {
	net.Conn
	delay time.Duration
}

func (c *slowConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 {
		time.Sleep(c.delay)
	}
	return n, err
}
