package zkbackend

import (
	"context"
	"net"
	"net/url"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/fencedlock/locker/driver"
)

const (
	MaxSessions = maxSessions
	MaxChecks   = maxChecks
	HeadSize    = headSize
)

var (
	Escape    = escape
	CheckRoot = checkRoot
	ParseACL  = parseACL
	TickOf    = tickOf
	WithPorts = withPorts
	Broken    = broken
	Overdue   = overdue
	Patience  = patienceFor
)

// LookAgain sets how often waiters look at the queue by themselves.
func LookAgain(t *testing.T, d time.Duration) {
	before := lookAgain
	lookAgain = d
	t.Cleanup(func() { lookAgain = before })
}

// Order returns the names of those nodes that are this package's, in order, and whether the order may be wrong.
func Order(names []string) (ordered []string, overflow bool) {
	nodes := parseNodes(names)
	for _, n := range nodes {
		ordered = append(ordered, n.name)
	}
	return ordered, overflows(nodes)
}

// Margins returns what a tick means for a TTL: how long a server may keep a sign of life, the pause between reads, and
// the timeout that is asked for.
func Margins(tick, ttl time.Duration) (ship, every, timeout time.Duration) {
	m := marginsOf(tick)
	return m.ship, m.every(), m.timeout(ttl)
}

// Proof is a proof of its own.
type Proof struct{ p *proof }

func NewProof(tick, ttl time.Duration, created driver.Instant) Proof {
	return Proof{newProof(marginsOf(tick), ttl, created)}
}

func (p Proof) Connected(sent, answered driver.Instant) { p.p.connected(sent, answered) }
func (p Proof) Answered(sent, answered driver.Instant)  { p.p.answered(sent, answered) }
func (p Proof) Wrote(sent driver.Instant)               { p.p.wrote(sent) }
func (p Proof) Base() driver.Instant                    { return p.p.base }
func (p Proof) Signs() int                              { return len(p.p.signs) }

// WroteAround returns what a session says to a write that is acknowledged before it is over, and to one after that.
func WroteAround(tick, ttl time.Duration) (before, after error) {
	s := newSession(&zkDriver{margins: marginsOf(tick)}, ttl)
	s.proof = newProof(s.d.margins, ttl, driver.Stamp())
	s.heard = driver.Stamp()
	_, before = s.wrote(driver.Stamp())
	s.end(errSilent)
	_, after = s.wrote(driver.Stamp())
	return before, after
}

// Heads feeds a stream to a reader of packets, in pieces of some size, and returns the heads of the packets.
func Heads(stream []byte, piece int) (heads [][]byte) {
	var f frames
	for len(stream) > 0 {
		n := min(piece, len(stream))
		f.feed(stream[:n], func(head []byte) { heads = append(heads, append([]byte{}, head...)) })
		stream = stream[n:]
	}
	return heads
}

// NewWire watches a connection. Requests are never held back on it.
func NewWire(conn net.Conn, patience time.Duration) net.Conn {
	return NewHoldingWire(conn, patience, patience)
}

// NewHoldingWire watches a connection, and holds requests back when the server has been silent for a while.
func NewHoldingWire(conn net.Conn, patience, hold time.Duration) net.Conn {
	return newWire(conn, "zk:2181", patience, hold, func() {})
}

// Greeted returns what the answer to the request to connect says.
func Greeted(c net.Conn) (timeout time.Duration, session int64) {
	h := c.(*wire).greeted()
	if h == nil {
		return 0, 0
	}
	return time.Duration(h.timeout) * time.Millisecond, h.session
}

// Hosts is what tells go-zookeeper where to connect.
func Hosts(servers []string, over func() bool) zk.HostProvider {
	h := &hosts{over: over}
	_ = h.Init(servers)
	return h
}

// Answered tells hosts that something was answered, and Pause returns how long it waits before the next dial.
func Answered(h zk.HostProvider)            { h.(*hosts).answered() }
func Pause(h zk.HostProvider) time.Duration { return h.(*hosts).pause() }

// Settings is what a URL says.
type Settings struct {
	Servers   []string
	Root      string
	TTL, Tick time.Duration
	Auth      [][2]string
	ACL       []zk.ACL
}

func ParseURL(u *url.URL) (Settings, error) {
	c, err := parse(u)
	s := Settings{Servers: c.servers, Root: c.root, TTL: c.ttl, Tick: c.tick, ACL: c.acl}
	for _, a := range c.auth {
		s.Auth = append(s.Auth, [2]string{a.scheme, a.secret})
	}
	return s, err
}

// NewDriver is New without the engine.
func NewDriver(ctx context.Context, servers []string, opts ...Option) (driver.Driver, error) {
	d, _, err := newDriver(ctx, newConfig(servers, opts))
	return d, err
}
