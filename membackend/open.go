// Package membackend keeps locks in the memory of this process. It is for the unit tests of
// programs that use locks, and it is the reference for authors of other backends: server.go is the
// service's protocol, and driver.go implements [driver.Driver].
//
// Open it with the URL mem:// or mem://NAME, or with [New]. All Lockers of this process that were
// opened with the same URL share one service, for as long as one of them is open; mem:// is the one
// without a name. New makes a service of its own. The one parameter is ttl, as in mem://?ttl=10s.
//
// # In unit tests
//
// Give the code under test a Locker of a [Server] that the test controls, and use other Lockers of
// that Server as rivals. Then make the service fail: end a lease ([Server.Expire]), take it away as
// an operator does ([locker.Break]), refuse renewals, fail, pause, restart or lose all data; or put
// a [Link] in between and cut, delay or sever it.
//
//	service := membackend.NewServer()
//	l := membackend.New(membackend.WithServer(service))
//	defer l.Close()
//	go worker(l)
//	…
//	service.Expire("invoices") // the worker's lease is lost now
//
// All of this works in a bubble of testing/synctest, where a TTL of 30 s passes at once: only
// timers, channels and mutexes are used, and no goroutine runs permanently. What is made in a
// bubble must stay in it: use New there, not a URL that is used outside. The examples show both.
//
// A service does less than memory: it is slower, learns of things later, and has limits. docs/ci.md lists
// the differences that a test doesn't see, and how to make it see them.
//
// # What it promises
//
// Waiters are served in the order in which they came. A release hands the lock to the first waiter
// that is alive, and so does the end of a TTL; nobody can overtake the queue. A waiter whose
// connection breaks loses its place, and queues again. The holder is notified at once when its lock
// is taken away. Tokens are max(last + 1, µs of the clock), so they rise for as long as the Server
// exists. After [Server.Wipe] only the clock makes them rise, so they fall if it is set back. The
// tokens of URLs rise for as long as the process lives, with the same exception.
package membackend

import (
	"context"
	"fmt"
	"net/url"
	"sync"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/driver"
	"github.com/fencedlock/locker/driver/kit"
)

const (
	backend    = "mem"
	defaultTTL = 30 * time.Second
)

func init() { locker.Register(backend, open) }

// Option changes what [New] makes.
type Option func(*config)

type config struct {
	server *Server
	link   *Link
	ttl    time.Duration
	leave  func()
}

// WithServer makes the Locker use a service that other Lockers use too, or that a test makes fail.
func WithServer(s *Server) Option { return func(c *config) { c.server = s } }

// WithLink puts a network, which a test can make fail, between the Locker and its service.
func WithLink(l *Link) Option { return func(c *config) { c.link = l } }

// WithDefaultTTL sets the TTL of leases that don't ask for one; without it, it is 30 s. Acquire
// refuses one below 5 ms.
func WithDefaultTTL(d time.Duration) Option { return func(c *config) { c.ttl = d } }

// New makes a Locker that uses a Server of its own unless an option says otherwise. The Locker has
// no goroutines while it neither holds nor waits for a lock. The caller closes it, which leaves a
// Server and a Link as they are.
func New(opts ...Option) locker.Locker {
	c := config{ttl: defaultTTL}
	for _, opt := range opts {
		opt(&c)
	}
	return c.locker()
}

func (c config) locker() locker.Locker {
	return driver.New(c.driver(), driver.Config{TTL: c.ttl, Features: locker.FeatureTTL | locker.FeatureSlots, ObeysContext: true})
}

func (c config) driver() *memDriver {
	if c.server == nil {
		c.server = NewServer()
	}
	if c.link == nil {
		c.link = NewLink()
	}
	return &memDriver{client: &client{server: c.server, link: c.link}, leave: c.leave}
}

// Guarantees says what every Locker of this package promises.
func Guarantees() locker.Guarantees {
	return locker.Guarantees{
		Backend:   backend,
		Scope:     locker.ScopeProcess,
		Tolerance: locker.ToleranceNone,
		Exclusion: locker.ExclusionSingleNode,
		Fencing:   locker.FencingUntilDataLoss,
		Clocks:    locker.ClocksSpeed,
		Order:     locker.OrderFIFO,
		Waiting:   locker.WaitingHandOff,
		Expiry: locker.Expiry{
			By:  locker.ExpiryKey,
			TTL: true,
			// A timer of this process hands an expired lock over, as late as a busy scheduler lets
			// it run.
			Slack: 100 * time.Millisecond,
		},
		Revocation: locker.RevocationAtOnce,
		Restart:    locker.RestartNothing,
		Inspection: locker.InspectionQueue,
		Break:      locker.BreakSeenAtOnce,
		RoundTrips: 0,
		Cost:       locker.CostNone,
	}
}

// open serves mem:// and mem://NAME.
func open(_ context.Context, u *url.URL) (locker.Locker, error) {
	p := kit.NewParams(u)
	c := config{ttl: p.Duration("ttl", defaultTTL)}
	if err := p.Err(); err != nil {
		return nil, err
	}
	if err := ttls.Check(c.ttl); err != nil {
		return nil, err
	}
	if u.User != nil || u.Path != "" || u.Opaque != "" || u.Fragment != "" || u.Hostname() != u.Host {
		return nil, fmt.Errorf("%w: invalid URL: want mem:// or mem://NAME, and only parameters after it, as in mem://test?ttl=10s",
			locker.ErrOption)
	}
	c.server, c.leave = named.join(u.Host)
	return c.locker(), nil
}

// named holds the services that URLs name, including the one without a name. Each exists from the
// opening of its first Locker to the closing of its last.
var named = registry{services: make(map[string]*service)}

type registry struct {
	mu       sync.Mutex
	services map[string]*service
	last     locker.Token // the largest of the services that have ended; the next ones go on from there
}

type service struct {
	Server
	users int
}

func (r *registry) join(name string) (s *Server, leave func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	sv := r.services[name]
	if sv == nil {
		sv = &service{Server: Server{last: r.last}}
		r.services[name] = sv
	}
	sv.users++
	return &sv.Server, func() { r.leave(name, sv) }
}

func (r *registry) leave(name string, sv *service) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if sv.users--; sv.users == 0 {
		delete(r.services, name)
		r.last = max(r.last, sv.lastToken())
	}
}
