package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// networks are the ways to the servers: the direct one, and those with an added round trip.
type networks struct {
	addrs   []string // of the servers
	distant []*distantNetwork
}

// distantNetwork is a proxy in a process of its own, on the servers' CPU: the clients' CPU belongs to
// the clients.
type distantNetwork struct {
	added  time.Duration
	addrs  []string
	helper *helper
	echo   Lateness // measured when it was started
}

// addrsOf returns where clients find the servers with an added round trip. A proxy is started when
// it is needed first.
func (n *networks) addrsOf(ctx context.Context, added time.Duration) ([]string, error) {
	if added == 0 {
		return n.addrs, nil
	}
	i := slices.IndexFunc(n.distant, func(d *distantNetwork) bool { return d.added == added })
	if i >= 0 {
		return n.distant[i].addrs, nil
	}
	d, err := startDistant(ctx, added, n.addrs)
	if err != nil {
		return nil, err
	}
	n.distant = append(n.distant, d)
	return d.addrs, nil
}

func startDistant(ctx context.Context, added time.Duration, addrs []string) (_ *distantNetwork, err error) {
	d := &distantNetwork{added: added}
	if d.helper, err = startHelper(ctx, selfPath(), "delay"); err != nil {
		return nil, err
	}
	args := DelayArgs{Added: added, Servers: addrs, CPU: -1}
	if pinned {
		args.CPU = serverCPU()
	}
	if err := d.helper.call(ctx, "Delay.Start", args, &d.addrs); err != nil {
		return nil, err
	}
	if err := d.helper.call(ctx, "Delay.Echo", echoCount, &d.echo); err != nil {
		return nil, err
	}
	return d, nil
}

const echoCount = 200

// String says how exact the added round trips were.
func (n *networks) String() string {
	var text strings.Builder
	for _, d := range n.distant {
		fmt.Fprintf(&text, " Added round trip of %g ms: an echo took %.3g ms more (p99 %.3g)",
			float64(d.added)/float64(time.Millisecond), d.echo.P50, d.echo.P99)
		var late Lateness
		if err := d.helper.call(context.Background(), "Delay.Lateness", 0, &late); err == nil {
			fmt.Fprintf(&text, "; half of all messages were passed on more than %.0f µs late (1 %% more than %.0f)",
				1000*late.P50, 1000*late.P99)
		}
		text.WriteString(".")
	}
	return text.String()
}

// ran is how long the proxies have run.
func (n *networks) ran() (sum time.Duration) {
	if n == nil {
		return 0
	}
	for _, d := range n.distant {
		sum += cpuTimeOf(d.helper.cmd.Process.Pid, false)
	}
	return sum
}

func (n *networks) stop() {
	for _, d := range n.distant {
		d.helper.stop()
	}
}
