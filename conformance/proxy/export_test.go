package proxy

// Connections returns how many connections there are.
func (n *Network) Connections() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.connections)
}

// Expect returns a function that says whether the network has read a request that contains text. Until
// then no reply may be sent on that connection.
func (n *Network) Expect(text string) (hasCome func() bool) {
	n.DropReplyTo(text)
	return func() bool {
		n.mu.Lock()
		defer n.mu.Unlock()
		if n.dropReplyTo != nil {
			return false
		}
		for c := range n.connections {
			c.lossy = false // the reply comes all the same
		}
		return true
	}
}
