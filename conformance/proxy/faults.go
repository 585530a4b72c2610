package proxy

import "time"

// direction is one direction of the network.
type direction struct {
	open chan struct{} // closed while the direction isn't cut
}

func (d *direction) isCut() bool {
	select {
	case <-d.open:
		return false
	default:
		return true
	}
}

func (d *direction) cut() {
	if !d.isCut() {
		d.open = make(chan struct{})
	}
}

func (d *direction) heal() {
	if d.isCut() {
		close(d.open)
	}
}

// Cut lets nothing through in either direction from now on. No connection ends, and none is made.
// What is sent meanwhile comes through after Heal, the end of a connection too, because TCP sends
// it until it is acknowledged.
func (n *Network) Cut() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.requests.cut()
	n.replies.cut()
}

// CutRequests is Cut for what clients send. What servers send arrives.
func (n *Network) CutRequests() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.requests.cut()
}

// CutReplies is Cut for what servers send. What clients send arrives.
func (n *Network) CutReplies() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.replies.cut()
}

// Drop loses the next count replies. The requests are executed. What a server sends by itself
// counts as a reply, and replies that come together count as one. A stream can't lose a piece and
// go on: nothing more comes on that connection, and Heal breaks it.
func (n *Network) Drop(count int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.drop = count
}

// DropReplyTo loses the reply to the next request that contains text, in the same way.
func (n *Network) DropReplyTo(text string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.dropReplyTo = []byte(text)
}

// Lost returns how many connections have lost a reply because of Drop or DropReplyTo, since the
// network was made.
func (n *Network) Lost() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.lost
}

// Delay makes what is sent from now on arrive later: requests by there, and replies by back. What
// is on its way keeps its time, also when Heal ends the delay.
func (n *Network) Delay(there, back time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.there, n.back = there, back
}

// Sever breaks all connections with a reset, at both ends. What was on its way is lost. New
// connections work.
func (n *Network) Sever() { n.severIf(func(*connection) bool { return true }) }

// Forget makes the network forget the connections that exist, as a NAT or a firewall does whose
// table is full or was lost. Nothing passes on them any more, in either direction, not even that the
// other end closes or dies. What is on its way is lost, except what is being written at this moment.
// New connections work. Heal, Sever and Close break the forgotten ones with a reset at both ends.
func (n *Network) Forget() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for c := range n.connections {
		c.forgotten = true
	}
}

// Heal ends Cut, CutRequests, CutReplies, Drop, DropReplyTo and Delay. It breaks the connections that
// have lost a reply, or that were forgotten.
func (n *Network) Heal() {
	n.mu.Lock()
	n.drop, n.dropReplyTo, n.there, n.back = 0, nil, 0, 0
	n.requests.heal()
	n.replies.heal()
	n.mu.Unlock()
	n.severIf(func(c *connection) bool { return c.lossy || c.forgotten })
}
