package zkbackend

import (
	"context"
	"net/url"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/internal/zkconn"
)

const (
	MaxSessions   = maxSessions
	MaxChecks     = maxChecks
	MinRemembered = minRemembered
)

var (
	Escape        = escape
	ParseDir      = parseDir
	CheckChroot   = checkChroot
	ParseACL      = parseACL
	TickOf        = tickOf
	AnswerTimeout = answerTimeout
)

// RecheckAfter sets how often waiters look at the queue by themselves.
func RecheckAfter(t *testing.T, d time.Duration) {
	before := recheckAfter
	recheckAfter = d
	t.Cleanup(func() { recheckAfter = before })
}

// Order returns the names of those nodes that are this package's, in order, and whether the order
// may be wrong.
func Order(names []string) (ordered []string, overflow bool) {
	nodes := parseNodes(names)
	for _, n := range nodes {
		ordered = append(ordered, n.name)
	}
	return ordered, overflows(nodes)
}

// Margins returns what a tick means for a TTL: how long a server may keep a sign of life, the pause
// between reads, and the timeout that is asked for.
func Margins(tick, ttl time.Duration) (relayDelay, readInterval, timeout time.Duration) {
	m := marginsOf(tick)
	return m.relayDelay, m.readInterval(), m.timeout(ttl)
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

// WroteAround returns what a session says to a write that is acknowledged before it is over, and to
// one after that.
func WroteAround(tick, ttl time.Duration) (before, after error) {
	s := newSession(&zkconn.Ensemble{}, &chroot{}, marginsOf(tick), ttl)
	s.proof = newProof(s.margins, ttl, driver.Stamp())
	_, before = s.wrote(driver.Stamp())
	s.conn.End(zkconn.ErrSilent)
	_, after = s.wrote(driver.Stamp())
	return before, after
}

// GuaranteesAt returns what a Locker promises at a tick.
var GuaranteesAt = guaranteesAt

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
	s := Settings{Servers: c.servers, Root: c.chroot.path, TTL: c.ttl, Tick: c.tick, ACL: c.chroot.acl}
	for _, a := range c.auth {
		s.Auth = append(s.Auth, [2]string{a.Scheme, a.Secret})
	}
	return s, err
}

// NewDriver is New without the engine.
func NewDriver(ctx context.Context, servers []string, opts ...Option) (driver.Driver, error) {
	return newDriver(ctx, newConfig(servers, opts))
}

// Dir is the node of a lock or a slot.
func Dir(root, name string, slot int) string { return (&chroot{path: root}).dir(name, slot) }
