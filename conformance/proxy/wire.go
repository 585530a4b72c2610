package proxy

import (
	"net"
	"sync"
	"time"
)

// wire is one connection: near is the end towards the client, far that towards the server.
type wire struct {
	network   *Network
	near, far net.Conn
	lossy     bool // under the network's mutex: a reply was lost, and nothing more goes back

	once   sync.Once
	broken chan struct{} // closed by reset
}

// parcel is what one read returned, or the end of the stream.
type parcel struct {
	data []byte
	due  time.Time
}

// relay carries data between two connections until both directions have ended or the wire is broken.
func (n *Network) relay(near, far net.Conn) {
	w := &wire{network: n, near: near, far: far, broken: make(chan struct{})}
	n.mu.Lock()
	defer n.mu.Unlock()
	select {
	case <-n.closed: // meanwhile
		w.reset()
		return
	default:
	}
	n.wires[w] = struct{}{}
	var ways sync.WaitGroup
	ways.Go(func() { w.carry(near, far, false) })
	ways.Go(func() { w.carry(far, near, true) })
	n.relays.Go(func() {
		ways.Wait()
		n.mu.Lock()
		defer n.mu.Unlock()
		delete(n.wires, w)
		_ = near.Close()
		_ = far.Close()
	})
}

// carry is one direction. Reading goes on while what was read waits for its time, so that the sender notices nothing.
func (w *wire) carry(from, to net.Conn, reply bool) {
	underway := make(chan parcel, 1024)
	var reading sync.WaitGroup
	reading.Go(func() { w.read(from, reply, underway) })
	defer reading.Wait()
	for p := range underway {
		if !w.until(p.due) {
			return
		}
		if p.data == nil {
			_ = to.(*net.TCPConn).CloseWrite()
			continue // there is nothing more
		}
		if _, err := to.Write(p.data); err != nil {
			w.reset() // the receiver is gone, and its sender must learn that
			return
		}
	}
}

func (w *wire) read(from net.Conn, reply bool, underway chan<- parcel) {
	defer close(underway)
	for {
		buf := make([]byte, 32<<10)
		size, err := from.Read(buf)
		if size > 0 && !w.send(buf[:size], reply, underway) {
			return
		}
		if err != nil {
			w.send(nil, reply, underway)
			return
		}
	}
}

func (w *wire) send(data []byte, reply bool, underway chan<- parcel) bool {
	due, ok := w.network.admit(w, reply, data)
	if !ok {
		return true
	}
	select {
	case underway <- parcel{data, due}:
		return true
	case <-w.broken:
		return false
	}
}

// until waits for the moment and for a network that isn't cut. It returns false when the wire is broken.
func (w *wire) until(due time.Time) bool {
	if wait := time.Until(due); wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-w.broken:
			return false
		}
	}
	select {
	case <-w.network.passage():
		return true
	case <-w.broken:
		return false
	}
}

// reset breaks the wire at both ends, visibly.
func (w *wire) reset() {
	w.once.Do(func() {
		close(w.broken)
		for _, c := range []net.Conn{w.near, w.far} {
			_ = c.(*net.TCPConn).SetLinger(0)
			_ = c.Close()
		}
	})
}
