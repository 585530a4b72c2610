package conformance_test

import "sync"

// toyPool has the idle connections of a client.
type toyPool struct {
	mu   sync.Mutex
	idle []*toyConn
}

// get returns the connection that was used last, or a new one.
func (p *toyPool) get(link *toyLink) *toyConn {
	p.mu.Lock()
	defer p.mu.Unlock()
	last := len(p.idle) - 1
	if last < 0 {
		return link.dial()
	}
	on := p.idle[last]
	p.idle = p.idle[:last]
	return on
}

func (p *toyPool) put(on *toyConn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.idle = append(p.idle, on)
}

// silent gives up the connection on which a request had no answer, and all idle ones.
func (p *toyPool) silent(on *toyConn, link *toyLink, f flaws) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case f.keepsSilent:
		p.idle = append(p.idle, on)
	case f.hidesIdle:
		p.idle = append(p.idle, link.dial())
	case !f.keepsIdle:
		p.idle = nil
	}
}
